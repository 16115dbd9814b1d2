"""Whose processor time it is: the processes of an embedded cluster by what they do. Pure but for the command lines.

Pods come and go within milliseconds. What a dead process used is in the account of the parent that waited for it, so
a whole tree's time (each process' own and what it waited for) never gets lost, and differences of it are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from harness.procs import Process, children_of, descendants, read_command

Group = Literal[
    "nats", "edges", "managers", "nodes", "checkpointers", "worker_zygotes", "sandbox_zygotes", "workers", "sandboxes", "supervisor", "client",
]  # fmt: skip
GROUPS: tuple[Group, ...] = (
    "nats", "edges", "managers", "nodes", "checkpointers", "worker_zygotes", "sandbox_zygotes", "workers", "sandboxes", "supervisor", "client",
)  # fmt: skip


class Roots(NamedTuple):
    """The processes from which all others of a cluster descend."""

    servers: Sequence[int]
    edges: Sequence[int]
    managers: Sequence[int]
    nodes: Sequence[int]
    supervisor: int
    client: int
    """This process: what publishes and waits."""


class Members(NamedTuple):
    """Living processes by what they do."""

    checkpointers: list[int]
    zygotes: dict[int, Literal["worker_zygotes", "sandbox_zygotes"]]
    workers: list[int]
    """Each worker's trusted half."""
    sandboxes: list[int]
    """Runners and what they have started."""
    runners: list[int]
    """The first process of each sandbox."""


def is_sandbox_zygote(command: Sequence[str]) -> bool:
    """Return whether a zygote forks sandboxes: those carry no site module."""
    return "-S" in command


def is_checkpointer(command: Sequence[str]) -> bool:
    """Return whether a node's child is its checkpointer."""
    return "checkpointer" in command


def find_members(
    roots: Roots,
    processes: Mapping[int, Process],
    command_of: Callable[[int], Sequence[str]] = read_command,
) -> Members:
    """Return what is below the nodes: their checkpointers, their zygotes, and what these have forked."""
    children = children_of(processes)
    members = Members([], {}, [], [], [])
    for node in roots.nodes:
        for zygote in children.get(node, []):
            command = command_of(zygote)
            if is_checkpointer(command):
                members.checkpointers.append(zygote)
            elif is_sandbox_zygote(command):
                members.zygotes[zygote] = "sandbox_zygotes"
                members.sandboxes.extend(descendants(zygote, children))
                members.runners.extend(children.get(zygote, []))
            else:
                members.zygotes[zygote] = "worker_zygotes"
                members.workers.extend(descendants(zygote, children))
    return members


def ticks_by_group(
    roots: Roots, processes: Mapping[int, Process], members: Members
) -> dict[Group, float]:
    """Return the processor time of each group until now, ticks."""
    total: dict[Group, float] = dict.fromkeys(GROUPS, 0)

    def add(group: Group, pids: Sequence[int], *, waited: bool = True) -> None:
        for pid in pids:
            process = processes.get(pid)
            if process is not None:
                total[group] += process.own_ticks + (process.waited_ticks if waited else 0)

    add("nats", roots.servers)
    add("edges", roots.edges)
    add("managers", roots.managers)
    add("nodes", roots.nodes)
    add("checkpointers", members.checkpointers)
    add("supervisor", [roots.supervisor], waited=False)
    add("client", [roots.client], waited=False)
    add("workers", members.workers)
    add("sandboxes", members.sandboxes)
    for zygote, kind in members.zygotes.items():
        add(kind, [zygote], waited=False)
        process = processes.get(zygote)
        if process is not None:
            total["workers" if kind == "worker_zygotes" else "sandboxes"] += process.waited_ticks
    return total
