"""Servers of the queue that die, end, lose their data, or have it damaged."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from agent_sandbox.embedded.procs import ProcessId, wait_gone
from chaos.core.dice import Dice
from chaos.nemesis import processes
from chaos.nemesis.base import Base, aside
from chaos.nemesis.choice import flipped, flips, leader_of_most
from chaos.ports import Injected, NoVictim, Site
from shared import subjects
from shared.errors import ServiceError
from shared.ids import SHARDS

QUEUES = tuple(subjects.queue_stream(shard) for shard in range(SHARDS))
CATCH_UP_S = 30.0
POLL_S = 0.5
ENDS_S = 15.0
"""Longest wait for a server that was asked to end."""
DAMAGED_BLOCKS = 3
BLOCK_BYTES_MIN = 64


class OfServer(Base):
    """Hits one server."""

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self.victim: tuple[str, ProcessId] | None = None

    async def leader(self) -> tuple[str, ProcessId]:
        """Return the server that leads most queue streams.

        Raises:
            NoVictim: nobody leads one, or its process is not known.
        """
        name = leader_of_most(await self.site.leaders(*QUEUES), self.dice)
        process = processes.alive(self.site.rows("server")).get(name or "")
        if name is None or process is None:
            raise NoVictim("the queue has no leader")
        self.victim = (name, process)
        return self.victim

    def any_server(self) -> tuple[str, ProcessId]:
        """Draw one of the servers; all of them must run: it is never two that lose their data.

        Raises:
            NoVictim: one of them is dead already.
        """
        rows = self.site.rows("server")
        running = processes.alive(rows)
        if len(running) < len(rows):
            raise NoVictim(f"{len(running)} of {len(rows)} servers run")
        name = self.dice.choice(sorted(running))
        self.victim = (name, running[name])
        return self.victim

    def store_of(self, server: str) -> Path:
        """Return where a server keeps its streams."""
        return self.site.folder.servers / server / "js"

    async def kill_held(self, process: ProcessId) -> float:
        """Kill a server, which stays dead until `release`; return when."""
        self.hold()
        at_s = self.site.now()
        process.send(signal.SIGKILL)
        await aside(wait_gone, [process], processes.GONE_S)
        return at_s

    async def missed(self) -> str:
        """See `Base`."""
        if self.victim is None:
            return "no server was hit"
        name, process = self.victim
        return f"{name} did not die" if process.is_alive() else ""


class LeaderKilled(OfServer):
    """The server that leads most queue streams is killed; it comes back when it is healed."""

    name = "queue-leader-killed"

    async def inject(self) -> Injected:
        """See `Fault`."""
        name, process = await self.leader()
        return self.done([name], await self.kill_held(process))


class LeaderEnded(OfServer):
    """The server that leads most queue streams is asked to end: it hands over first."""

    name = "queue-leader-ended"

    async def inject(self) -> Injected:
        """See `Fault`."""
        name, process = await self.leader()
        at_s = self.site.now()
        process.send(signal.SIGTERM)
        await aside(wait_gone, [process], ENDS_S)
        return self.done([name], at_s)


class ServerWiped(OfServer):
    """A server loses all its data, and comes back empty at once; it has to have caught up with the others in time."""

    name = "server-wiped"
    lasts_s = 40.0

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._emptied = False
        self._catching: asyncio.Task[float | None] | None = None

    async def inject(self) -> Injected:
        """See `Fault`."""
        name, process = self.any_server()
        at_s = await self.kill_held(process)
        store = self.store_of(name)
        await aside(shutil.rmtree, store)
        self._emptied = not store.exists()
        self.release()
        self._catching = asyncio.create_task(self._caught_up(name, process))
        return self.done([name], at_s)

    async def _caught_up(self, name: str, dead: ProcessId) -> float | None:
        """Return how long the new process took until it had all of each stream, twice in a row; None: too long."""
        began_s, looks = self.site.now(), 0
        while self.site.now() < began_s + CATCH_UP_S:
            with suppress(ServiceError):
                anew = processes.alive(self.site.rows("server")).get(name)
                behind = await self.site.behind(name)
                looks = looks + 1 if anew not in (None, dead) and not behind else 0
            if looks == 2:
                return self.site.now() - began_s
            await asyncio.sleep(POLL_S)
        return None

    async def heal(self) -> None:
        """See `Fault`."""
        if self._catching is not None:
            await asyncio.wait({self._catching})
        await super().heal()

    async def missed(self) -> str:
        """See `Base`."""
        return await super().missed() or ("" if self._emptied else "its data stayed")

    async def failed(self) -> str:
        """See `Base`."""
        if self._catching is None or self._catching.result() is not None:
            return ""
        return f"the server had not caught up after {CATCH_UP_S:g} s"


class ServerDamaged(OfServer):
    """In some blocks of a server's streams bits are turned over while it is down; it comes back at once."""

    name = "server-damaged"
    lasts_s = 40.0

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._damaged: list[Path] = []

    async def inject(self) -> Injected:
        """See `Fault`."""
        name, process = self.any_server()
        at_s = await self.kill_held(process)
        blocks = [path for path in blocks_of(self.store_of(name)) if is_state(path)]
        chosen = self.dice.sample(blocks, min(DAMAGED_BLOCKS, len(blocks)))
        self._damaged = [path for path in chosen if self.damage(path)]
        self.release()
        shown = ", ".join(path.parents[1].name for path in self._damaged)
        return self.done([name], at_s, f"blocks of the streams {shown}")

    def damage(self, path: Path) -> bool:
        """Damage a file; return whether it is another one now."""
        return turn_over(path, self.dice)

    async def missed(self) -> str:
        """See `Base`."""
        return await super().missed() or ("" if self._damaged else "no block was damaged")


class ServerTruncated(ServerDamaged):
    """Of some blocks of a server's streams the end is missing; it comes back at once."""

    name = "server-truncated"

    def damage(self, path: Path) -> bool:
        """See `ServerDamaged`."""
        size = path.stat().st_size
        left = size // 2 + self.dice.randrange(size // 2)
        os.truncate(path, left)
        return path.stat().st_size < size


def blocks_of(store: Path) -> list[Path]:
    """Return the files in which a server keeps messages, those that hold any, in order."""
    return sorted(
        path for path in store.rglob("msgs/*.blk") if path.stat().st_size >= BLOCK_BYTES_MIN
    )


def is_state(block: Path) -> bool:
    """Return whether a block is of a stream that holds the truth."""
    return block.parents[1].name in {subjects.state_stream(shard) for shard in range(SHARDS)}


def turn_over(path: Path, dice: Dice, count: int = 1) -> bool:
    """Turn bits of a file over, on the disk itself; return whether all of them are turned now."""
    wanted = []
    descriptor = os.open(path, os.O_RDWR)
    try:
        for offset, bit in flips(os.fstat(descriptor).st_size, count, dice):
            new = flipped(os.pread(descriptor, 1, offset)[0], bit)
            os.pwrite(descriptor, bytes((new,)), offset)
            wanted.append((offset, new))
        os.fsync(descriptor)
        return bool(wanted) and all(os.pread(descriptor, 1, at)[0] == new for at, new in wanted)
    finally:
        os.close(descriptor)
