"""Killing and stopping whole trees of processes, by pid and start time; and what the kernel says became of them."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from agent_sandbox.embedded.procs import ProcessId, descendants, wait_gone
from agent_sandbox.embedded.table import Row

GONE_S = 5.0
STOP_ROUNDS = 10
"""A process may fork while its tree is being stopped; its parent stopped first, the rounds come to an end."""


def alive(rows: Iterable[Row]) -> dict[str, ProcessId]:
    """Return the processes that run now, by their names in the supervisor's table."""
    return {
        row.name: row.process for row in rows if row.process is not None and row.process.is_alive()
    }


def trees(roots: Iterable[ProcessId]) -> list[ProcessId]:
    """Return the roots and all processes below them, each root before its own."""
    return [process for root in roots for process in (root, *descendants(root.pid))]


def send(processes: Iterable[ProcessId], number: signal.Signals) -> None:
    """Send a signal to each that is there; those of other users are left alone."""
    for process in processes:
        with suppress(PermissionError):
            process.send(number)


def kill(roots: Sequence[ProcessId]) -> list[ProcessId]:
    """Kill trees, and wait until they are gone; return what is left after GONE_S seconds."""
    found = trees(roots)  # found before the first dies: its children would be nobody's
    send(found, signal.SIGKILL)
    return wait_gone(found, GONE_S)


def stop(roots: Sequence[ProcessId]) -> list[ProcessId]:
    """Stop the execution of trees; return all that stands still now."""
    for _ in range(STOP_ROUNDS):
        running = [one for one in trees(roots) if one.is_alive() and not stands_still(one)]
        if not running:
            break
        send(running, signal.SIGSTOP)
    return [one for one in trees(roots) if stands_still(one)]


def stands_still(process: ProcessId) -> bool:
    """Return whether a process is stopped."""
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] in "Tt"
