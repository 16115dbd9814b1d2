"""A process's wall clock is off by what a file says, and its monotonic clock is not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from agent_sandbox.embedded.procs import ProcessId
from chaos.adapters.ground import CLOCK
from chaos.nemesis.clocks import used

PROGRAM = """\
import asyncio, pathlib, sys, time
file, began = pathlib.Path(sys.argv[1]), time.monotonic()
print(time.time(), time.time_ns() / 1e9, time.clock_gettime(time.CLOCK_REALTIME))
file.write_text("-3600\\n")
time.sleep(0.6)
asyncio.run(asyncio.sleep(0))
print(time.time(), time.monotonic() - began)
"""


def test_a_wall_clock_jumps_and_the_monotonic_one_goes_on(tmp_path: Path) -> None:
    """By an hour ahead, then an hour back; both jumps are noted under the process's number."""
    file = tmp_path / "clock"
    file.write_text("3600\n")
    env = {**os.environ, "PYTHONPATH": str(CLOCK), "CHAOS_CLOCK_FILE": str(file)}
    before = time.time()
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(file)], env=env, stdout=subprocess.PIPE, text=True
    )
    said, _ = program.communicate(timeout=60)
    took_s = time.time() - before

    ahead, (back, monotonic_s) = (list(map(float, line.split())) for line in said.splitlines())
    assert all(3600 <= wall - before <= 3600 + took_s for wall in ahead)
    assert -3600 <= back - before <= -3600 + took_s
    assert 0.6 <= monotonic_s <= took_s
    assert used(file, ProcessId(program.pid, 0)) == {3600, -3600}
    assert used(file, ProcessId(1, 0)) == set()
