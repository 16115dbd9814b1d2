"""A renewal goes over to a second connection, and the server of both hangs or dies at a chosen word of that."""

from __future__ import annotations

import asyncio
from collections import Counter
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


async def test_a_connection_is_left_only_when_the_other_servers_know_what_the_new_one_hears(
    tmp_path: Path,
) -> None:
    """It leads to another server, whose word reaches the third one a moment later: nothing is lost meanwhile."""
    relay = Relay()
    cluster = RelayedCluster(tmp_path / "nats", relay)
    try:
        first, second, third = started(cluster).servers
        signer = cluster.identity.signer
        subject, heard = unique("spread"), Counter[int]()
        async with tapped([first.url, second.url]) as tap:
            credential = signer.mint("moves", roles.admin())
            bus = await Bus.connect(
                BusOptions(servers=(tap.url,), name="moves", credential=credential)
            )
            other = await Bus.connect(
                msgspec.structs.replace(admin_options(cluster), servers=(third.url,))
            )
            await bus.subscribe(subject, lambda message: heard.update((int(message.data),)))

            async def is_known() -> bool:
                await other.publish(subject, b"-1")
                return bool(heard)

            await until(is_known)
            asked = tap.hold(2, "up", b"SUB")
            renewal = asyncio.create_task(bus.use_credential(signer.mint("moves", roles.admin())))
            await asked.wait()
            for link in second.routes:
                relay.do(link.cut)
            asked.go()
            for number in range(SPREAD_MESSAGES):
                await other.publish(subject, str(number).encode())
                await asyncio.sleep(SPREAD_LATE_S / SPREAD_MESSAGES)
            for link in second.routes:
                relay.do(link.heal)
            await renewal
            await other.publish(subject, str(SPREAD_MESSAGES).encode())

            await until(lambda: heard[SPREAD_MESSAGES] == 1)
            assert [heard[number] for number in range(SPREAD_MESSAGES)] == [1] * SPREAD_MESSAGES
            await bus.close()
            await other.close()
    finally:
        cluster.kill()
        relay.close()
