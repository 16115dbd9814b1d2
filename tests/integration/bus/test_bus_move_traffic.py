"""A renewal goes over to a second connection while much is on its way: unsent, unhandled, unacknowledged, unanswered."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from tests.integration.bus.moving import BUFFER_BYTES, PONG, Pair, reach, renew

from shared import subjects
from shared.bus import Bus, BusOptions, Message
from shared.cluster import Cluster
from shared.errors import OutcomeUnknown, Unavailable
from shared.identity import roles
from shared.messages import Credential
from shared.testing.names import unique
from shared.testing.plugin import Connect
from shared.testing.tap import Tap
from shared.testing.wait import until

PIECE = b"x" * 32 * 1024


async def test_a_move_with_much_unsent_holds_nothing_and_makes_no_more_room(
    pair: Pair, provisioned_cluster: Cluster
) -> None:
    """It waits until the server takes it; the bound of what is unsent stays what it was; all of it arrives."""
    link, big = pair.bus._link, unique("big")
    arrived: list[int] = []
    await pair.other.subscribe(big, lambda message: arrived.append(len(message.data)))
    held = pair.tap.hold(1, "up", b"PUB")
    sent = [0]

    async def fill() -> None:
        with suppress(Unavailable):
            while True:
                link.client.send(big, PIECE)
                sent[0] += 1
                await asyncio.sleep(0)

    await fill()
    await fill()  # what the socket did not take
    full = sent[0]
    renewal = renew(pair, provisioned_cluster)
    await until(lambda: len(pair.tap.talks) == 3)  # the first try is over
    await fill()
    more = (sent[0] - full) * len(PIECE)
    held.go()
    with suppress(Unavailable):
        await renewal

    await until(lambda: len(arrived) == sent[0])
    assert more < BUFFER_BYTES // 2
    await pair.check()
    assert pair.lost == 0


async def test_a_slow_handler_gets_all_that_came_while_both_connections_hear(
    pair: Pair, provisioned_cluster: Cluster
) -> None:
    """Its queue holds each message once: what comes twice does not take the place of others."""
    free, subject = asyncio.Event(), unique("slow")
    got: Counter[bytes] = Counter()

    async def work(message: Message) -> None:
        await free.wait()
        got[message.data] += 1

    slow = await pair.bus.subscribe(subject, work, pending_max=120)
    held = reach(pair.tap, "leaving")
    renewal = renew(pair, provisioned_cluster)
    await held.wait()
    for number in range(100):
        await pair.other.publish(subject, str(number).encode())
    await pair.tell()
    held.go()
    await renewal
    free.set()

    await until(lambda: len(got) == 100)
    await pair.check()
    assert set(got.values()) == {1}
    assert slow.dropped == 0


async def test_acks_around_a_move_are_taken(pair: Pair, provisioned_cluster: Cluster) -> None:
    """Sent before, held and gone back to the first, held and gone over, sent while the first is left: none is lost."""
    lane, tenant = ("Q0", "other-batch"), unique("t")
    while (old := await pair.bus.pull(*lane, expires_s=0)) is not None:  # another test's
        await old.ack()
    for number in range(40):
        last = await pair.other.publish_acked(
            subjects.queue(0, tenant, "other", "batch"),
            b"",
            message_id=f"{tenant}-{number}",
        )
    taken = [await pair.bus.pull(*lane, expires_s=2) for _ in range(40)]
    acks = iter(taken)

    async def ack(count: int) -> None:
        for _ in range(count):
            delivery = next(acks)
            assert delivery is not None
            await delivery.ack()

    await ack(10)
    answered = [pair.tap.hold(number, "down", PONG, 2) for number in (2, 3)]
    renewal = renew(pair, provisioned_cluster)
    await answered[0].wait()
    await ack(10)
    pair.tap.talks[1].cut()
    await answered[1].wait()
    await ack(10)
    leaving = pair.tap.hold(1, "up", b"UNSUB")
    answered[1].go()
    await leaving.wait()
    await ack(10)
    leaving.go()
    await renewal

    async def is_settled() -> bool:
        info = await pair.other.js_api("CONSUMER.INFO.Q0.other-batch")
        return (
            info["num_ack_pending"] == 0
            and info["ack_floor"]["stream_seq"] == info["delivered"]["stream_seq"] >= last.seq
        )

    await until(is_settled)
    assert pair.lost == 0


async def test_an_answer_to_what_only_the_left_connection_heard_is_refused_and_comes_when_asked_again(
    tap: Tap, provisioned_cluster: Cluster, connect: Connect
) -> None:
    """The right to answer stays with the connection that heard: the first asker knows nothing, and asks again."""
    identity, name = provisioned_cluster.identity, unique("w")
    first = identity.worker_signer.mint("default", name, valid_s=600)
    manager = await connect(roles.pool_manager("m1"), name="m1")
    worker = await Bus.connect(BusOptions(servers=(tap.url,), name=name, credential=first))
    moved = asyncio.Event()

    async def answer(message: Message) -> None:
        await moved.wait()
        await worker.publish(message.reply, message.data)

    await worker.subscribe(subjects.control(name), answer)
    held = reach(tap, "introduced")
    jwt = identity.worker_signer.renew(first.jwt, "default", name, valid_s=600)
    renewal = asyncio.create_task(worker.use_credential(Credential(jwt=jwt, seed=first.seed)))
    await held.wait()
    asked = asyncio.create_task(manager.request(subjects.control(name), b"1", timeout_s=2))
    await asyncio.sleep(0.1)  # the order is heard: nothing tells when
    held.go()
    await renewal
    moved.set()
    with pytest.raises(OutcomeUnknown):
        await asked

    again = await manager.request(subjects.control(name), b"2", timeout_s=2)
    assert again.data == b"2"
    assert len(worker.refusals) == 1
    await worker.close()
