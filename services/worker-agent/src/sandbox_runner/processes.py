"""All user processes at once: to stop them, let them go on, kill them."""

import os
import signal
import time
from contextlib import suppress

_ROUNDS_MAX = 64
_PAUSE_S = 0.001
_ORDER_S = 0.2
"""Longest time that keeping the order may take: what is in a long system call stops late."""
_AT_REST = (b"T", b"t", b"Z", b"X")


def signal_everyone(number: int, *, bounded: bool) -> None:
    """Sends a signal to every process below the runner.

    Args:
        number: The signal.
        bounded: Whether kill(-1) reaches nobody else: the runner is pid 1 of a pid namespace, or in a signal scope of its
            own. The kernel then does it in one step that no fork can slip through.
    """
    if number in (signal.SIGSTOP, signal.SIGCONT) or not bounded:  # the one step has no order
        try:
            _walk(number)
        except OSError:  # Landlock hides /proc: then in any order
            if not bounded:
                raise
    if bounded:
        with suppress(ProcessLookupError, PermissionError):  # there's nobody
            os.kill(-1, number)


def _walk(number: int) -> None:
    """Without a border in the kernel: read who is there, again and again until nobody new turns up.

    Parents are at rest before their children are stopped, and go on after them: a shell that saw its job stopped would
    take it for a ^Z.
    """
    told: set[int] = set()
    end_at_s = time.monotonic() + _ORDER_S
    for _ in range(_ROUNDS_MAX):
        new = [pid for pid in _descendants(os.getpid()) if pid not in told]
        if not new:
            return
        for pid in reversed(new) if number == signal.SIGCONT else new:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue
            while number == signal.SIGSTOP and _runs(pid) and time.monotonic() < end_at_s:
                time.sleep(_PAUSE_S / 10)
        told.update(new)


def wait_stopped(limit_s: float) -> None:
    """Waits until no process below the runner runs any more: a system call that was under way when SIGSTOP came ends first.

    Args:
        limit_s: Longest wait, seconds. Where /proc can't be read there's none.
    """
    end_at_s = time.monotonic() + limit_s
    with suppress(OSError):
        while any(map(_runs, _descendants(os.getpid()))) and time.monotonic() < end_at_s:
            time.sleep(_PAUSE_S)


def _runs(pid: int) -> bool:
    """Whether a thread of the process is neither stopped nor dead."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False
    return any(_state(f"{pid}/task/{thread}")[0] not in _AT_REST for thread in threads)


def _state(path: str) -> tuple[bytes, int]:
    """Returns the state of a process or thread and its parent's number; of what is gone, "X" and 0."""
    try:
        with open(f"/proc/{path}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return b"X", 0
    return fields[0], int(fields[1])


def _descendants(root: int) -> list[int]:
    """Returns all who live below a process, parents before their children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            state, parent = _state(name)
            if state not in (b"Z", b"X"):
                children.setdefault(parent, []).append(int(name))
    found = list(children.get(root, ()))
    for pid in found:  # it grows while it is walked
        found += children.get(pid, ())
    return found


def reap() -> list[tuple[int, int]]:
    """Collects every child that has ended, orphans of user code among them.

    Returns:
        Pairs of process id and wait status.
    """
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))


def any_child() -> bool:
    """Whether this process has children, ended or not."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def outcome(status: int) -> tuple[int | None, int | None]:
    """Tells an exit code from a signal.

    Returns:
        Exit code and None, or None and signal number.
    """
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status)
    return os.waitstatus_to_exitcode(status), None
