"""What a save has freed goes back to the machine."""

from __future__ import annotations

import os
import subprocess
import sys

from checkpointer.adapters.engine.allocator import bound_allocator

PROGRAM = """
import resource
from checkpointer.adapters.engine.allocator import bound_allocator

def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() >> 20

if {bound}:
    assert bound_allocator()
before = resident_mib()
block = b"x" * (24 << 20)
del block
blocks = [b"x" * (12 << 20) for _ in range(4)]
behind = b"x" * (100 << 10)
del blocks
print(resident_mib() - before)
"""


def kept_mib(*, bound: bool) -> int:
    """Return what a process keeps that has freed 48 MiB, with something in use behind them."""
    program = PROGRAM.format(bound=bound)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_freed_packs_go_back_to_the_machine() -> None:
    """Where the allocator is left as it is, it keeps them: that is what this is for. Others than glibc's are left so."""
    if "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        assert not bound_allocator()
        return
    assert kept_mib(bound=False) > 40
    assert kept_mib(bound=True) < 8
