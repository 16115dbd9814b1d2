"""Processes of this machine: known by pid *and* start time, so that a pid that was given again is never mistaken.

Linux only: the start time comes from `/proc`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

PR_SET_PDEATHSIG = 1
_POLL_S = 0.02


class ProcessId(msgspec.Struct, frozen=True):
    """One process of this boot: the pid alone may belong to somebody else by now."""

    pid: int
    start_ticks: int
    """Clock ticks between the boot and the start of the process."""

    def is_alive(self) -> bool:
        """Return whether this very process exists and is no zombie."""
        fields = _stat(self.pid)
        return fields is not None and fields[0] not in "ZX" and int(fields[19]) == self.start_ticks

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; return whether the process was there to get it.

        Raises:
            PermissionError: it belongs to another user.
        """
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/<pid>/stat from `state` on, or None where there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()  # the name before it may hold spaces and brackets


def identify(pid: int) -> ProcessId | None:
    """Return the identity of a running process, or None where there is none."""
    fields = _stat(pid)
    return None if fields is None else ProcessId(pid, int(fields[19]))


def die_with_parent(number: signal.Signals) -> Callable[[], None]:
    """Return what a child calls between fork and exec, so that `number` is sent to it when its parent dies.

    The parent must fork from its main thread: the kernel watches the thread that forked.
    """
    parent = os.getpid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def arm() -> None:
        prctl(PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:  # the parent died before the kernel knew
            os._exit(1)

    return arm


def marked(mark: str) -> list[ProcessId]:
    """Return the processes in whose initial environment `mark` (NAME=value) stands, our own not among them.

    Children inherit the mark unless they were started with an environment of their own, as user code is.
    """
    wanted = mark.encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ = (entry / "environ").read_bytes()
        except OSError:  # gone, or another user's
            continue
        if wanted in environ.split(b"\0") and (identity := identify(int(entry.name))):
            found.append(identity)
    return [process for process in found if process.is_alive()]


def descendants(root: int) -> list[ProcessId]:
    """Return all processes below `root`, by their parents."""
    children: dict[int, list[ProcessId]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            process = ProcessId(int(entry.name), int(fields[19]))
            children.setdefault(int(fields[1]), []).append(process)
    found: list[ProcessId] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += [process.pid for process in below]
    return found


def child_running(parent: ProcessId, module: str) -> ProcessId | None:
    """Return the child of a process that runs a Python module (`-m MODULE`), or None where there is none."""
    if not parent.is_alive():
        return None
    for process in descendants(parent.pid):
        fields = _stat(process.pid)
        if fields is None or int(fields[1]) != parent.pid:
            continue  # what a sandbox started may call itself anything
        try:
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if module.encode() in words and process.is_alive():
            return process
    return None


def wait_gone(processes: Iterable[ProcessId], timeout_s: float) -> list[ProcessId]:
    """Wait until the processes are gone, at most `timeout_s` seconds; return those that are still there."""
    left = [process for process in processes if process.is_alive()]
    until = time.monotonic() + timeout_s
    while left and time.monotonic() < until:
        time.sleep(_POLL_S)
        left = [process for process in left if process.is_alive()]
    return left


def end(processes: Iterable[ProcessId], *, grace_s: float, kill_s: float) -> list[ProcessId]:
    """End processes: SIGTERM, after `grace_s` SIGKILL; return those that are there `kill_s` after that.

    A process of another user counts as left.
    """
    left = list(processes)
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, kill_s)):
        for process in left:
            try:
                process.send(number)
            except PermissionError:
                continue
        left = wait_gone(left, patience_s)
        if not left:
            break
    return left
