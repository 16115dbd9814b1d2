"""Which worker does what, by its heartbeats and the records; and which process it is, by its connection."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness import procs
from harness.groups import is_sandbox_zygote

from agent_sandbox.demo.victims import open_sockets, sockets_of
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import ProcessId, identify
from shared import messages, subjects
from shared.bus import Bus, Message
from shared.cluster import open_layout
from shared.messages import WorkerBeat
from shared.record import Record
from shared.testing.history import Place, TaskKey

FRESH_S = 0.6
"""A heartbeat that is older says nothing about now."""


@dataclass(frozen=True)
class Busy:
    """A worker in the middle of a task."""

    worker: str
    task: TaskKey
    deaths: int
    """Of the worker's process in this task so far, as the record of this very epoch says."""


class Workers:
    """What the workers of a pool say, and the records that they own."""

    def __init__(self) -> None:
        self._beats: dict[str, tuple[float, WorkerBeat]] = {}
        self._records: dict[tuple[str, str], Record] = {}

    async def listen(self, bus: Bus, pool: str) -> None:
        """Hear a pool's heartbeats."""
        await bus.subscribe(subjects.heartbeat(pool), self.hear)

    def hear(self, message: Message) -> None:
        """Take in a heartbeat."""
        beat = messages.decode(message.data, WorkerBeat)
        self._beats[beat.worker] = (time.monotonic(), beat)

    def on_stored(self, _: Place, subject: str, data: bytes) -> None:
        """Take in what a state stream has stored."""
        if subject.startswith("rec."):
            record = messages.decode(data, Record)
            self._records[record.tenant, record.session] = record

    def busy(self) -> list[Busy]:
        """Return the workers that ran a task when they were heard last, a moment ago.

        Only those whose record is known in the epoch that they name: its count of deaths is the one that counts.
        """
        found = []
        now = time.monotonic()
        for worker, (at, beat) in list(self._beats.items()):
            if now - at > FRESH_S:
                if now - at > 60:
                    del self._beats[worker]
                continue
            if beat.task is None or beat.session is None or beat.state != "running":
                continue
            tenant = beat.tenant or ""
            record = self._records.get((tenant, beat.session))
            if record is not None and (record.owner, record.epoch) == (worker, beat.epoch):
                found.append(Busy(worker, (tenant, beat.session, beat.task), record.deaths))
        return found


class Finder:
    """Finds the process of a worker: the one below the nodes that holds the connection of that name."""

    def __init__(self, folder: Folder) -> None:
        self._servers = open_layout(folder.servers).file.ports

    def find(self, worker: str, nodes: list[int]) -> ProcessId | None:
        """Return a worker's process, or None where there is none (any more)."""
        wanted = sockets_of(self._servers, worker)
        if not wanted:
            return None
        zygotes = [zygote for node in nodes for zygote in children(node)]
        for zygote in zygotes:
            if not is_worker_zygote(zygote):
                continue
            for pid in children(zygote):
                if wanted & open_sockets(pid):
                    return identify(pid)
        return None


def is_worker_zygote(pid: int) -> bool:
    """Return whether a node's child is the fork server of its workers."""
    command = procs.read_command(pid)
    return any("zygote" in word for word in command) and not is_sandbox_zygote(command)


def fork_servers(node: int) -> list[int]:
    """Return a node's fork servers. Where a keeper stands above one, both are of the keeper's session."""
    found: list[int] = []
    for first in children(node):
        if any("zygote" in word for word in procs.read_command(first)):
            below = [pid for pid in children(first) if is_of_session(pid, first)]
            found += below or [first]
    return found


def is_of_session(pid: int, leader: int) -> bool:
    """Return whether a process lives and is of the session that another one leads."""
    try:
        return os.getsid(pid) == leader
    except ProcessLookupError:
        return False


def children(pid: int) -> list[int]:
    """Return the children of a process, without a look at all others of the machine."""
    found: list[int] = []
    with suppress(OSError):  # it is gone
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += [int(word) for word in (thread / "children").read_text().split()]
    return found
