"""What the node's kernel says about the sandbox: memory kills, and sums that it does not bound itself.

Where the sandbox has no cgroup, the sidecar adds up memory and processes of its own sandbox while a task runs, a few times a
second, and files (`adapters.disk`) wherever it runs, and ends the sandbox that passes a limit. That is late by up to one
interval, and said so in `docs/security.md`; where there is a cgroup the kernel is exact.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from shared.pools import PodLimits
from worker_agent.adapters.disk import Disk
from worker_agent.pod import SandboxFacts

_COUNTED = ("RssAnon:", "RssShmem:")
MIB = 1 << 20
ENDING_NICENESS = 15


def oom_kills(memory_cgroup: str | None) -> int:
    """Return how often the kernel has killed a process of this cgroup for memory (v1 and v2)."""
    if memory_cgroup is None:
        return 0
    for name in ("memory.oom_control", "memory.events"):
        try:
            text = Path(memory_cgroup, name).read_text()
        except OSError:
            continue
        for line in text.splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.isdigit():
                return int(value)
    return 0


def process_tree(root: int) -> Iterator[int]:
    """Yield the pids of `root` and all that descend from it. Orphans stay below it: it is their subreaper."""
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - thousands of times a second
                with open(f"/proc/{pid}/task/{thread}/children") as file:  # noqa: PTH123 - likewise
                    waiting.extend(map(int, file.read().split()))
        except OSError:
            continue  # it has ended


def memory_mib(pids: list[int]) -> float:
    """Return the memory of these processes together, MiB: their own, and what they share through `/dev/shm` and the like.

    Files of programs and libraries do not count. `smaps` would tell shares exactly, but a sandbox's may not be read.
    """
    kib = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        kib += sum(int(line.split()[1]) for line in lines if line.startswith(_COUNTED))
    return kib / 1024


def passed_limit(facts: SandboxFacts, limits: PodLimits, disk: Disk) -> str | None:
    """Return which watched limit the sandbox has passed, in words, or None."""
    watch = set(facts.watch)
    pids = list(process_tree(facts.pid)) if {"memory", "pids"} & watch else []
    if "pids" in watch and len(pids) > limits.pids:
        return f"pids: {len(pids)} processes, at most {limits.pids}"
    if "memory" in watch and (used := memory_mib(pids)) > limits.memory_mib:
        return f"memory_mib: {used:.0f}, at most {limits.memory_mib}"
    if "disk" in watch and disk.passed_limit():
        return f"disk_mib: more than {limits.disk_mib}"
    return None


async def look(facts: SandboxFacts, limits: PodLimits, disk: Disk) -> str | None:
    """Return what `passed_limit` does; where that may take long, from a thread.

    Where processes of the same user leave no room for a thread it is done here: they may be this sandbox's.
    """
    if "disk" in facts.watch:
        with suppress(RuntimeError):
            return await asyncio.to_thread(passed_limit, facts, limits, disk)
    return passed_limit(facts, limits, disk)


def come_to_foreground(runner_pid: int, niceness: int) -> None:
    """Give this worker and its runner the priority of work that somebody waits for.

    Pods are warmed in the background where that may be undone (as root); elsewhere nothing changes.
    """
    if runner_pid <= 0:
        return  # a rehearsal
    wanted = {os.getpid(): 0} | dict.fromkeys(process_tree(runner_pid), niceness)
    for pid, level in wanted.items():
        with suppress(OSError):
            if os.getpriority(os.PRIO_PROCESS, pid) > level:
                os.setpriority(os.PRIO_PROCESS, pid, level)


def go_to_background(runner_pid: int) -> None:
    """Let the end of a pod, whose work is done, wait behind what somebody waits for."""
    if runner_pid <= 0:
        return  # a rehearsal: this process lives on
    for pid in (os.getpid(), *process_tree(runner_pid)):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, pid, ENDING_NICENESS)
