"""Trees of processes: find and end them all. Standard library only: used inside the zygotes.

For sandboxes without a process namespace. Whoever is stopped or dead cannot fork, so each pass leaves fewer that can;
a limit on processes bounds how many there are to begin with.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Container

_PASSES_MAX = 200
_WAIT_S = 0.002
_WAITS_MAX = 5000


def children(pid: int, spared: Container[int] = ()) -> list[int]:
    """Return the living children of a process; dead ones that nobody has reaped are left out.

    Args:
        pid: whose.
        spared: children that are of no interest; they are not looked at.
    """
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += [int(word) for word in file.read().split()]
    except FileNotFoundError:  # it is gone, or the kernel was built without these files
        found += [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except ProcessLookupError:
        pass
    return [child for child in found if child not in spared and _is_alive_below(child, pid)]


def descendants(pid: int) -> list[int]:
    """Return all living processes below `pid`, without itself."""
    found: list[int] = []
    queue = [pid]
    while queue:
        below = children(queue.pop())
        found += below
        queue += below
    return found


def kill_tree(pid: int) -> None:
    """Kill a child of this process and everything below it. Leaves the child for waitpid().

    The child is stopped first, so that it goes on to adopt whoever loses its parent while it can do nothing else.
    """
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        return
    for _ in range(_PASSES_MAX):
        below = descendants(pid)
        if not below:
            break
        for each in below:
            _signal(each, signal.SIGSTOP)
        for each in descendants(pid):
            _signal(each, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)


def end_all_children() -> None:
    """Kill and reap all children of this process with everything below them, and whoever becomes a child meanwhile.

    It ends when the kernel knows of no child, living or dead. A process that looks dead may have threads that are not,
    and these hold on to its orphans for a moment: whoever left by then would leave the orphans to nobody.
    """
    for _ in range(_WAITS_MAX):
        for pid in children(os.getpid()):
            kill_tree(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_WAIT_S)


def end_children(spared: Container[int]) -> None:
    """Likewise, but for children that stay, and without waiting for those that are dead already.

    Args:
        spared: children that stay.
    """
    for _ in range(_PASSES_MAX):
        doomed = children(os.getpid(), spared)
        if not doomed:
            return
        for pid in doomed:
            kill_tree(pid)
            os.waitpid(pid, 0)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _is_alive_below(pid: int, parent: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, ppid = file.read().rpartition(b")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(ppid) == parent and state not in {b"Z", b"X"}
