"""A renewal goes over to a second connection, and the server of both hangs or dies at a chosen word of that."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from shared import subjects
from shared.bus import Bus, BusOptions
from shared.cluster import Cluster
from shared.errors import Unavailable
from shared.identity import roles
from shared.testing.cut import RelayedCluster
from shared.testing.faults import strike
from shared.testing.names import unique
from shared.testing.plugin import admin_options, started
from shared.testing.relay import Relay
from shared.testing.tap import Stage, Tap, tapped
from shared.testing.wait import until

PING, PONG = b"PING\r\n", b"PONG\r\n"
RENEWED_WITHIN_S = 9.0
"""One try of three parts, the loss of the server noticed meanwhile, and a reconnect."""


def reach(tap: Tap, stage: str) -> Stage:
    """Hold the next move of the first connection at one of its words."""
    match stage:
        case "connecting":  # the second connection is there, and has not said who it is
            return tap.hold(2, "up", b"CONNECT")
        case "asked":  # the second one hears everything; the ping behind that is on its way
            return tap.hold(2, "up", PING, 2)
        case "answered":  # all is taken; only the answer on the second one is missing
            return tap.hold(2, "down", PONG, 2)
        case _:  # "leaving": all goes by the second one, and the first is being left
            return tap.hold(1, "up", b"UNSUB")


async def kept(bus: Bus, tenant: str) -> Counter[str]:
    """Return the bodies of a tenant's messages in the stream, and how often each is there."""
    found, after = Counter[str](), 0
    while one := await bus.read_next("Q1", f"q.*.{tenant}.>", after_seq=after, timeout_s=5):
        found[one.data.decode()] += 1
        after = one.seq
    return found


SLOW = pytest.mark.slow
SPREAD_LATE_S = 0.1
"""So much later a server hears what another one hears; the connection that is left waits for longer."""
SPREAD_MESSAGES = 20


@pytest.mark.parametrize(
    ("stage", "fault"),
    [
        pytest.param("connecting", "hung", marks=SLOW),
        ("asked", "hung"),
        ("answered", "hung"),
        ("leaving", "hung"),
        pytest.param("connecting", "killed", marks=SLOW),
        pytest.param("asked", "killed", marks=SLOW),
        ("answered", "killed"),
        ("leaving", "killed"),
    ],
)
async def test_a_server_lost_in_the_middle_of_a_move_is_left_and_costs_nothing_that_was_stored(
    stage: str, fault: str, private_cluster: Cluster
) -> None:
    """The bus is connected again within its bounds, to another one; what streams acknowledged is stored, once."""
    lost_server, *others = private_cluster.servers
    tenant, acknowledged = unique("t"), set[str]()
    done = asyncio.Event()
    signer = private_cluster.identity.signer
    async with tapped([lost_server.url, lost_server.url, others[0].url]) as tap:
        bus = await Bus.connect(
            BusOptions(
                servers=(tap.url,), name="moves", credential=signer.mint("moves", roles.admin())
            )
        )

        async def store() -> None:
            while not done.is_set():
                one = unique("m")
                await bus.publish_acked(
                    subjects.queue(1, tenant, "other", "batch"), one.encode(), message_id=one
                )
                acknowledged.add(one)
                await asyncio.sleep(0.005)

        storing = asyncio.create_task(store())
        held = reach(tap, stage)
        newest = signer.mint("moves", roles.admin())
        renewal = asyncio.create_task(bus.use_credential(newest))
        try:
            await held.wait()
            await strike(fault, lost_server)
            held.go()
            async with asyncio.timeout(RENEWED_WITHIN_S):
                await asyncio.wait({renewal})
            await until(lambda: bus.connected)
            count = len(acknowledged)
            await until(lambda: len(acknowledged) > count, within_s=10)
            done.set()
            await storing
            assert renewal.exception() is None or isinstance(renewal.exception(), Unavailable)
            if renewal.exception() is None:
                assert newest.jwt.encode() in tap.talks[-1].said
            await until(lambda: tap.open == 1)
        finally:
            await asyncio.gather(renewal, storing, return_exceptions=True)
            await bus.close()
        await until(lambda: tap.open == 0)

    admin = await Bus.connect(admin_options(private_cluster))
    assert await kept(admin, tenant) == Counter(acknowledged)
    await admin.close()


class Spread:
    """A bus that goes over from the first server to the second, and another at the third that talks to it."""

    def __init__(self, cluster: RelayedCluster, tap: Tap, bus: Bus, other: Bus) -> None:
        """Use the fixture."""
        self.heard = Counter[int]()
        self.tap = tap
        self._cluster, self._relay = cluster, cluster.servers[0].relay
        self._bus, self._other = bus, other
        self._subject = unique("spread")
        self._said = 0

    async def begin(self) -> None:
        """Subscribe, and wait until the other is heard here, and at the second server."""
        second = await Bus.connect(
            msgspec.structs.replace(
                admin_options(self._cluster), servers=(self._cluster.servers[1].url,)
            )
        )
        found: set[str] = set()
        await self._bus.subscribe(
            self._subject, lambda message: self.heard.update((int(message.data),))
        )
        await second.subscribe(self._subject, lambda _: found.add("second"))

        async def is_known() -> bool:
            await self._other.publish(self._subject, b"-1")
            return bool(self.heard and found)

        await until(is_known, within_s=20)  # routes are made, and closed as doubled, for some time
        await second.close()

    def renew(self) -> asyncio.Task[None]:
        """Go over."""
        signer = self._cluster.identity.signer
        return asyncio.create_task(self._bus.use_credential(signer.mint("moves", roles.admin())))

    def cut(self) -> None:
        """What servers say to the second one, and it to them, waits."""
        for link in self._cluster.servers[1].routes:
            self._relay.do(link.cut)

    def heal(self) -> None:
        """It comes."""
        for link in self._cluster.servers[1].routes:
            self._relay.do(link.heal)

    async def say(self, count: int = SPREAD_MESSAGES, *, within_s: float = 0.0) -> None:
        """Speak at the third server, for so long."""
        for _ in range(count):
            await self._other.publish(self._subject, str(self._said).encode())
            self._said += 1
            await asyncio.sleep(within_s / count)

    def wrong(self) -> dict[int, int]:
        """Return what was not heard exactly once, and how often it was."""
        return {n: self.heard[n] for n in range(self._said) if self.heard[n] != 1}


@pytest.fixture
async def spread(tmp_path: Path) -> AsyncIterator[Spread]:
    """Three servers whose routes can be cut."""
    relay = Relay()
    cluster = RelayedCluster(tmp_path / "nats", relay)
    try:
        first, second, third = started(cluster).servers
        async with tapped([first.url, second.url]) as tap:
            credential = cluster.identity.signer.mint("moves", roles.admin())
            bus = await Bus.connect(
                BusOptions(servers=(tap.url,), name="moves", credential=credential)
            )
            other = await Bus.connect(
                msgspec.structs.replace(admin_options(cluster), servers=(third.url,))
            )
            made = Spread(cluster, tap, bus, other)
            await made.begin()
            yield made
            await bus.close()
            await other.close()
    finally:
        cluster.kill()
        relay.close()


async def test_a_connection_is_left_only_when_the_other_servers_know_what_the_new_one_hears(
    spread: Spread,
) -> None:
    """It leads to another server, whose word reaches the third one a moment later: nothing is lost meanwhile."""
    asked = spread.tap.hold(2, "up", b"SUB")
    renewal = spread.renew()
    await asked.wait()
    spread.cut()
    asked.go()
    await spread.say(within_s=SPREAD_LATE_S)
    spread.heal()
    await renewal
    await spread.say(1)

    await until(lambda: not spread.wrong())


async def test_what_comes_later_on_the_new_connection_than_on_the_left_one_is_known(
    spread: Spread,
) -> None:
    """The third server has sent it to both, and the way to the second is the longer one: nothing is heard twice."""
    leaving = spread.tap.hold(1, "up", b"UNSUB")
    renewal = spread.renew()
    await leaving.wait()
    spread.cut()
    await spread.say()
    await until(lambda: not spread.wrong())
    leaving.go()
    await asyncio.sleep(SPREAD_LATE_S)  # it is left meanwhile
    spread.heal()
    await renewal
    await spread.say(1)

    await until(lambda: spread.heard[SPREAD_MESSAGES] > 0)
    assert spread.wrong() == {}
