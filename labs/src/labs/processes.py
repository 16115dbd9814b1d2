"""Processes that a side starts and breaks: they die with it, however it ends."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PR_SET_PDEATHSIG = 1
END_S = 10.0

Process = subprocess.Popen[bytes]


def start(words: Sequence[str | Path], log: Path | None = None) -> Process:
    """Start a program; what it says goes to a file, or is this program's own."""
    libc = ctypes.CDLL(None)
    output = None if log is None else log.open("ab")
    try:
        return subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=output or sys.stderr,
            stderr=output or sys.stderr,
            start_new_session=True,
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509 - one system call
        )
    finally:
        if output is not None:
            output.close()


def end(process: Process) -> None:
    """End a process at once, also one that stands still."""
    process.kill()
    process.wait(END_S)


@contextmanager
def ended() -> Iterator[list[Process]]:
    """Yield a list; every process that is in it at the end is ended then."""
    started: list[Process] = []
    try:
        yield started
    finally:
        for process in started:
            end(process)
