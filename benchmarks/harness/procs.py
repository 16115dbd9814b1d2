"""Processes of this machine as the kernel counts them: parents, processor time, memory. Linux only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """One process at one moment."""

    pid: int
    parent: int
    name: str
    own_ticks: float
    """Processor time of its threads, living and dead; finer than whole ticks where the kernel tells."""
    waited_ticks: int
    """Processor time of the children that it has waited for, and of theirs."""


def parse_stat(text: str) -> Process:
    """Return the process that a line of /proc/<pid>/stat describes."""
    before, _, after = text.rpartition(")")  # a name may hold spaces and brackets
    pid, _, name = before.partition(" (")
    fields = after.split()
    return Process(
        pid=int(pid),
        parent=int(fields[1]),
        name=name,
        own_ticks=int(fields[11]) + int(fields[12]),
        waited_ticks=int(fields[13]) + int(fields[14]),
    )


def scan(proc: Path = PROC) -> dict[int, Process]:
    """Return all processes; those that end meanwhile are left out."""
    found = {}
    for entry in os.scandir(proc):
        if entry.name.isdigit() and (process := read_process(int(entry.name), proc)):
            found[process.pid] = process
    return found


def read_process(pid: int, proc: Path = PROC) -> Process | None:
    """Return one process, or None where there is none."""
    folder = proc / str(pid)
    main_ns = 0
    try:
        process = parse_stat((folder / "stat").read_text())
        with suppress(FileNotFoundError):  # a kernel without it
            main_ns = int((folder / "schedstat").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return None
    # Whole ticks are cut: of hundreds of processes that live for milliseconds nothing would be left. The scheduler's
    # own count is finer, but of the main thread alone.
    return process._replace(own_ticks=max(process.own_ticks, main_ns * TICKS_PER_S / 1e9))


def children_of(processes: Mapping[int, Process]) -> dict[int, list[int]]:
    """Return the children of each process that has any."""
    found: dict[int, list[int]] = {}
    for process in processes.values():
        found.setdefault(process.parent, []).append(process.pid)
    return found


def descendants(root: int, children: Mapping[int, list[int]]) -> list[int]:
    """Return all processes below `root`, without itself."""
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def read_command(pid: int, proc: Path = PROC) -> list[str]:
    """Return a process' command line; nothing where there is none."""
    try:
        text = (proc / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [word.decode(errors="replace") for word in text.split(b"\0")[:-1]]


def cpu_s(pids: Iterable[int], proc: Path = PROC) -> float:
    """Return the processor time of living processes together, seconds.

    From the scheduler's nanoseconds where the kernel has them: what a process counts in ticks of 10 ms is too coarse
    for hundreds of idle ones. Processes that are gone count nothing.
    """
    return sum(_own_s(pid, proc) for pid in pids)


def _own_s(pid: int, proc: Path) -> float:
    try:
        threads = list((proc / str(pid) / "task").iterdir())
        total_ns = 0
        for thread in threads:
            schedstat = (thread / "schedstat").read_text()
            total_ns += int(schedstat.split()[0])
    except (FileNotFoundError, ProcessLookupError):
        process = read_process(pid, proc)
        return 0.0 if process is None else process.own_ticks / TICKS_PER_S
    return total_ns / 1e9


def pss_mib(pid: int, proc: Path = PROC) -> float | None:
    """Return the proportional set size, MiB: private memory, and of each shared page this process' share.

    None where the process is gone.

    Raises:
        PermissionError: another user's process.
    """
    try:
        text = (proc / str(pid) / "smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return parse_rollup(text).get("Pss", 0) / 1024


def parse_rollup(text: str) -> dict[str, int]:
    """Return the sizes that /proc/<pid>/smaps_rollup names, KiB."""
    found = {}
    for line in text.splitlines()[1:]:
        name, _, value = line.partition(":")
        found[name] = int(value.split()[0])
    return found


class Machine(NamedTuple):
    """Processor time of the whole machine since its start, ticks, and time in which somebody waited for a core."""

    busy_ticks: int
    stolen_ticks: int
    """Taken by the machine below this virtual one."""
    waiting_us: int | None
    """At least one process was ready to run and had no core, microseconds; None: the kernel does not count it."""


def read_machine(proc: Path = PROC) -> Machine:
    """Return the machine's counters."""
    try:
        pressure: str | None = (proc / "pressure" / "cpu").read_text()
    except OSError:
        pressure = None
    return parse_machine((proc / "stat").read_text(), pressure)


def parse_machine(stat: str, pressure: str | None) -> Machine:
    """Return the machine's counters from /proc/stat and /proc/pressure/cpu."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.split()[1:9])
    waiting = None
    for line in (pressure or "").splitlines():
        if line.startswith("some"):
            waiting = int(line.rpartition("total=")[2])
    return Machine(user + nice + system + irq + softirq, steal, waiting)
