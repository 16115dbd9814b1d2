"""A bus whose renewals are watched, and what it says and hears meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from shared.bus import Bus, Message
from shared.cluster import Cluster
from shared.identity import roles
from shared.messages import Credential
from shared.testing.names import unique
from shared.testing.tap import Stage, Tap
from shared.testing.wait import until

PING, PONG = b"PING\r\n", b"PONG\r\n"
BUFFER_BYTES = 1024 * 1024


def reach(tap: Tap, stage: str) -> Stage:
    """Hold the next move of the first connection: `asked` holds what the client says, the others what is answered."""
    match stage:
        case "introduced":  # the server has taken the second connection
            return tap.hold(2, "down", PONG)
        case "asked":  # the second one hears everything; the ping behind that is on its way
            return tap.hold(2, "up", PING, 2)
        case "answered":  # all is taken; only the answer on the second one is missing
            return tap.hold(2, "down", PONG, 2)
        case _:  # "leaving": all goes by the second one, and the first is being left
            return tap.hold(1, "up", b"UNSUB")


class Pair:
    """A bus behind a tap, and another that it talks with; each message has a number."""

    def __init__(self, bus: Bus, other: Bus, tap: Tap) -> None:
        """Use the fixture."""
        self.bus, self.other, self.tap = bus, other, tap
        self.lost = 0
        self.heard: dict[str, Counter[int]] = {
            "out": Counter(),
            "in": Counter(),
            "shared": Counter(),
        }
        self._said = self._told = 0
        self._subject = unique("move")
        bus.on_lost = self._on_lost

    def _on_lost(self) -> None:
        self.lost += 1

    async def begin(self) -> None:
        """Subscribe."""
        for kind, hears, group in (
            ("out", self.other, ""),
            ("in", self.bus, ""),
            ("shared", self.bus, "group"),
            ("shared", self.other, "group"),
        ):
            await hears.subscribe(f"{self._subject}.{kind}", self._count(kind), queue=group)

    def _count(self, kind: str) -> Callable[[Message], None]:
        return lambda message: self.heard[kind].update((int(message.data),))

    async def say(self, count: int = 10) -> None:
        """Publish from the bus: all of it is taken."""
        for _ in range(count):
            await self.bus.publish(f"{self._subject}.out", str(self._said).encode())
            self._said += 1

    async def tell(self, count: int = 20) -> None:
        """Publish to the bus, to it alone and to the group; when this returns, the server has handed it on."""
        for _ in range(count):
            for kind in ("in", "shared"):
                await self.other.publish(f"{self._subject}.{kind}", str(self._told).encode())
            self._told += 1
        assert await self.other.probe(timeout_s=5)

    def wrong(self) -> dict[str, dict[int, int]]:
        """Return what was not heard exactly once, and how often it was."""
        sent = {"out": self._said, "in": self._told, "shared": self._told}
        return {
            kind: odd
            for kind, heard in self.heard.items()
            if (odd := {n: heard[n] for n in range(sent[kind]) if heard[n] != 1})
        }

    async def check(self) -> None:
        """See that all came once, and that the connection works in both ways and is the only one."""
        await self.say()
        await self.tell()
        with suppress(TimeoutError):
            await until(lambda: not self.wrong())
        assert self.wrong() == {}
        await until(lambda: self.tap.open == 1)
        assert self.wrong() == {}


def mint(cluster: Cluster) -> Credential:
    """Return another credential of the bus."""
    return cluster.identity.signer.mint("moves", roles.admin(), expires_s=600)


def renew(pair: Pair, cluster: Cluster) -> asyncio.Task[None]:
    """Begin a renewal."""
    return asyncio.create_task(pair.bus.use_credential(mint(cluster)))


async def kept(bus: Bus, tenant: str) -> dict[str, int]:
    """Return the bodies of a tenant's messages in the stream, and how often each is there."""
    found, after = Counter[str](), 0
    while one := await bus.read_next("Q0", f"q.*.{tenant}.>", after_seq=after, timeout_s=5):
        found[one.data.decode()] += 1
        after = one.seq
    return dict(found)
