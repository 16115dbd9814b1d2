"""How busy the machine was between two moments, and with what."""

from __future__ import annotations

import time
from typing import NamedTuple

from harness import procs
from harness.groups import GROUPS, Group, Members, Roots, find_members, ticks_by_group
from harness.procs import TICKS_PER_S, Machine


class Moment(NamedTuple):
    """The counters at one moment."""

    at_s: float
    ticks: dict[Group, float]
    machine: Machine
    members: Members


class Usage(NamedTuple):
    """What was used between two moments, in cores: seconds of processor time for each second."""

    seconds: float
    cores: dict[Group, float]
    elsewhere: float
    """By all that does not belong to the cluster or the client, the kernel's own threads among it."""
    stolen: float
    """Taken by the machine below this virtual one."""
    waiting: float | None
    """Share of the time in which somebody waited for a core, 0 to 1; None: not counted by this kernel."""

    @property
    def total(self) -> float:
        """Cores used by the cluster and the client together."""
        return sum(self.cores.values())


def look(roots: Roots) -> Moment:
    """Read all counters now."""
    at_s = time.monotonic()
    machine = procs.read_machine()
    processes = procs.scan()
    members = find_members(roots, processes)
    return Moment(at_s, ticks_by_group(roots, processes, members), machine, members)


def between(first: Moment, last: Moment) -> Usage:
    """Return what was used between two moments.

    Raises:
        ValueError: they are the same moment, or in the wrong order.
    """
    seconds = last.at_s - first.at_s
    if seconds <= 0:
        raise ValueError(f"moments in order expected, got a distance of {seconds} s")
    per_tick = 1 / TICKS_PER_S / seconds
    cores = {group: (last.ticks[group] - first.ticks[group]) * per_tick for group in GROUPS}
    busy = (last.machine.busy_ticks - first.machine.busy_ticks) * per_tick
    waiting = None
    if first.machine.waiting_us is not None and last.machine.waiting_us is not None:
        waiting = (last.machine.waiting_us - first.machine.waiting_us) / 1e6 / seconds
    return Usage(
        seconds=seconds,
        cores=cores,
        elsewhere=max(0.0, busy - sum(cores.values())),
        stolen=(last.machine.stolen_ticks - first.machine.stolen_ticks) * per_tick,
        waiting=waiting,
    )
