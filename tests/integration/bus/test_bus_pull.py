"""Queues: bells, pulls, and settling deliveries."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from shared import subjects
from shared.bus import Bus, Delivery, Message
from shared.errors import Unavailable
from shared.identity import roles
from shared.testing.plugin import Connect
from shared.testing.wait import until


@pytest.fixture
async def lanes(admin_bus: Bus) -> None:
    """Empty queues."""
    for shard in range(3):
        await admin_bus.js_api(f"STREAM.PURGE.Q{shard}", {})


@pytest.fixture
async def worker(connect: Connect, lanes: None) -> Bus:
    """A worker of the pool `default`."""
    return await connect(roles.worker("default", "w1"), name="w1")


async def publish(bus: Bus, shard: int, body: bytes = b"{}") -> int:
    """Put a message into one shard of the interactive lane; return its sequence."""
    subject = subjects.queue(shard, "t", "default", "interactive")
    return (await bus.publish_acked(subject, body, message_id=uuid4().hex)).seq


async def is_empty(bus: Bus) -> bool:
    """Return whether the first shard holds nothing."""
    return not (await bus.js_api("STREAM.INFO.Q0"))["state"]["messages"]


async def pull_one(bus: Bus, shard: int, within_s: float = 5.0) -> Delivery:
    """Pull until there is a message."""
    async with asyncio.timeout(within_s):
        while True:
            delivery = await bus.pull(f"Q{shard}", "default-interactive")
            if delivery is not None:
                return delivery


async def test_a_pull_takes_what_was_published(worker: Bus, admin_bus: Bus) -> None:
    """With all that a claim needs to know about it."""
    seq = await publish(admin_bus, 1, b"body")
    delivery = await pull_one(worker, 1)
    assert (delivery.stream, delivery.stream_seq, delivery.deliveries) == ("Q1", seq, 1)
    assert (delivery.subject, delivery.data) == ("q.1.t.default.interactive", b"body")
    assert delivery.time_ms > 1_700_000_000_000
    assert "Nats-Msg-Id" in delivery.headers
    await delivery.ack()


async def test_an_acked_message_is_gone(worker: Bus, admin_bus: Bus) -> None:
    """The work queue is empty afterwards."""
    await publish(admin_bus, 0)
    await (await pull_one(worker, 0)).ack()
    await until(lambda: is_empty(admin_bus))


async def test_a_message_given_back_comes_again_after_its_delay(
    worker: Bus, admin_bus: Bus
) -> None:
    """And counts its deliveries."""
    await publish(admin_bus, 0)
    loop = asyncio.get_running_loop()
    await (await pull_one(worker, 0)).nak(0.3)
    given_back = loop.time()
    delivery = await pull_one(worker, 0)
    assert 0.25 < loop.time() - given_back < 1.5
    assert delivery.deliveries == 2
    await delivery.ack()


async def test_a_message_that_is_not_settled_comes_again(worker: Bus, admin_bus: Bus) -> None:
    """After the consumer's ack wait of two seconds."""
    await publish(admin_bus, 0)
    first = await pull_one(worker, 0)
    second = await pull_one(worker, 0)
    assert (second.stream_seq, second.deliveries) == (first.stream_seq, 2)
    await second.ack()


async def test_a_terminated_message_does_not_come_again(worker: Bus, admin_bus: Bus) -> None:
    """Though it was never done."""
    await publish(admin_bus, 0)
    await (await pull_one(worker, 0)).term()
    await until(lambda: is_empty(admin_bus))


async def test_an_empty_lane_answers_none_when_the_pull_expires(worker: Bus) -> None:
    """Not earlier, and not much later."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await worker.pull("Q0", "default-batch", expires_s=0.2) is None
    assert 0.15 < loop.time() - began < 1.0


async def test_a_pull_from_no_consumer_is_definite(admin_bus: Bus) -> None:
    """Nobody listens there: the lane does not exist, or has no leader now."""
    with pytest.raises(Unavailable, match="503"):
        await admin_bus.pull("Q0", "nothing-batch")


async def test_many_pulls_on_one_connection_take_different_messages(
    worker: Bus, admin_bus: Bus
) -> None:
    """Each has its own inbox."""
    seqs = {await publish(admin_bus, 2) for _ in range(20)}
    deliveries = await asyncio.gather(*(pull_one(worker, 2) for _ in range(20)))
    assert {delivery.stream_seq for delivery in deliveries} == seqs
    for delivery in deliveries:
        await delivery.ack()


async def test_a_cancelled_pull_gives_back_what_comes_late(worker: Bus, admin_bus: Bus) -> None:
    """The message goes to the next worker at once, not after the ack wait."""
    for _ in range(5):
        pulling = asyncio.create_task(worker.pull("Q0", "default-interactive", expires_s=2.0))
        await asyncio.sleep(0)  # the request is queued
        await asyncio.sleep(0)
        await publish(admin_bus, 0)
        pulling.cancel()
        result = (await asyncio.gather(pulling, return_exceptions=True))[0]
        loop = asyncio.get_running_loop()
        if isinstance(result, Delivery):
            await result.ack()
            continue
        began = loop.time()
        delivery = await pull_one(worker, 0)
        assert loop.time() - began < 1.0
        await delivery.ack()


async def test_a_bell_rings_for_each_message_and_one_of_the_group_hears_it(
    connect: Connect, admin_bus: Bus, lanes: None
) -> None:
    """It names pool, class and shard, and holds no body."""
    heard: asyncio.Queue[Message] = asyncio.Queue()
    for name in ("w1", "w2", "w3"):
        bus = await connect(roles.worker("default", name), name=name)
        await bus.subscribe(subjects.bells("default"), heard.put_nowait, queue=subjects.IDLE_GROUP)
    for _ in range(4):
        for shard in range(3):
            await publish(admin_bus, shard, b"secret")
    async with asyncio.timeout(15):
        bells = [await heard.get() for _ in range(12)]
    assert sorted(subjects.parse_bell(message.subject)[2] for message in bells) == sorted(
        [0, 1, 2] * 4
    )
    assert {subjects.parse_bell(message.subject)[:2] for message in bells} == {
        ("default", "interactive")
    }
    assert all(message.data == b"" for message in bells)
    assert heard.empty()


async def test_a_worker_wakes_by_bell_and_takes_the_message(
    worker: Bus, connect_client: Connect
) -> None:
    """From a client's publish to the delivery."""
    bells: asyncio.Queue[str] = asyncio.Queue()
    await worker.subscribe(
        subjects.bells("default"),
        lambda message: bells.put_nowait(message.subject),
        queue=subjects.IDLE_GROUP,
    )
    client = await connect_client("t")
    ack = await client.publish_acked(
        subjects.task("t", "default", "interactive"), b"{}", message_id=uuid4().hex
    )
    async with asyncio.timeout(15):
        pool, klass, shard = subjects.parse_bell(await bells.get())
    delivery = await worker.pull(subjects.queue_stream(shard), subjects.consumer(pool, klass))
    assert delivery is not None
    assert (delivery.stream, delivery.stream_seq) == (ack.stream, ack.seq)
    await delivery.ack()
