"""A wall clock that is off by what a file says. Python runs this at its start where this folder is on its path.

`time.time`, `time.time_ns` and `time.clock_gettime` are changed; monotonic clocks, and what does not ask Python, go on as
they are. Each offset that a process has come to use is noted beside the file, with the process's number.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

FILE_VARIABLE = "CHAOS_CLOCK_FILE"
READ_EVERY_S = 0.5
_NS = 1_000_000_000


def offset_of(file: Path) -> Callable[[], int]:
    """Return what tells the present offset, seconds; it reads the file every now and then."""
    steady, append = time.monotonic, os.O_WRONLY | os.O_APPEND | os.O_CREAT
    known, next_s = 0, 0.0

    def offset() -> int:
        nonlocal known, next_s
        now_s = steady()
        if now_s < next_s:
            return known
        next_s = now_s + READ_EVERY_S
        try:
            found = int(file.read_text())
            if found != known:
                descriptor = os.open(f"{file}.used", append, 0o600)
                os.write(descriptor, f"{os.getpid()} {found}\n".encode())
                os.close(descriptor)
        except (OSError, ValueError):  # it is just being written
            return known
        known = found
        return known

    return offset


def put_off(file: Path) -> None:
    """Let this process's wall clock be off from now on."""
    offset = offset_of(file)
    real, real_ns, real_get = time.time, time.time_ns, time.clock_gettime

    def get(clock: int) -> float:
        return real_get(clock) + (offset() if clock == time.CLOCK_REALTIME else 0)

    vars(time).update(
        time=lambda: real() + offset(),
        time_ns=lambda: real_ns() + offset() * _NS,
        clock_gettime=get,
    )


if FILE_VARIABLE in os.environ:
    put_off(Path(os.environ[FILE_VARIABLE]))
