"""Callers that stand still, are too slow, give up in the middle, or change their credential under load."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest

from shared import subjects
from shared.bus import Bus, Message, Write
from shared.cluster import Cluster
from shared.identity import roles
from shared.testing.names import unique
from shared.testing.plugin import Connect
from shared.testing.wait import until

STALL_S = 5.0


async def stored_of(bus: Bus, tenant: str) -> list[str]:
    """Return the bodies of a tenant's messages in all queue streams, with their stream."""
    found = []
    for shard in range(3):
        after = 0
        while (
            one := await bus.read_next(f"Q{shard}", f"q.*.{tenant}.>", after_seq=after, timeout_s=5)
        ) is not None:
            found.append(f"Q{shard} {one.data.decode()}")
            after = one.seq
    return found


@pytest.mark.slow
async def test_a_loop_that_stands_still_for_five_seconds_notices_recovers_and_loses_nothing(
    connect: Connect,
) -> None:
    """Its contact is as old as it really is, from the first moment on; what was in flight is stored once."""
    bus = await connect(name="staller")
    tenant = unique("t")
    heard: list[bytes] = []
    lost = asyncio.Event()
    bus.on_lost = lost.set
    await bus.subscribe(tenant, lambda message: heard.append(message.data))
    ids = [uuid4().hex for _ in range(40)]
    publishing = [
        asyncio.create_task(
            bus.publish_acked(
                subjects.task(tenant, "default", "batch"), one.encode(), message_id=one
            )
        )
        for one in ids
    ]
    pulling = asyncio.create_task(bus.pull("Q0", "other-batch", expires_s=2.0))
    probing = asyncio.create_task(bus.probe(timeout_s=2.0))
    await asyncio.sleep(0.002)  # some are sent, some answered
    stalled = time.monotonic()
    time.sleep(STALL_S)  # noqa: ASYNC251 - the stall is what is tested
    awake = time.monotonic()
    while bus._link.client.contact < awake:  # until something that was sent since is answered
        now = time.monotonic()  # first: what comes in between makes the age larger only
        assert bus.contact_age_s() >= now - stalled - 0.1
        assert now - awake < 30
        await asyncio.sleep(0)
    assert bus.contact_age_s() < 5.0
    await asyncio.gather(*publishing)
    await asyncio.gather(pulling, probing, return_exceptions=True)
    assert lost.is_set()  # the server had given it up
    judge = await connect(name="judge")  # not before: its connection would have stood still as well
    stored = await stored_of(judge, tenant)
    assert {line.split()[1] for line in stored} == set(ids)
    assert len(stored) == len(set(stored))

    async def is_heard() -> bool:  # the other servers learn of the subscription a moment later
        await judge.publish(tenant, b"still heard")
        return b"still heard" in heard

    await until(is_heard)


@pytest.mark.parametrize("asked", ["probe", "js_api", "pull"])
async def test_an_answer_that_waited_out_a_stall_is_an_old_contact(
    asked: str, connect: Connect
) -> None:
    """It says that the server heard us before the stall, not that it hears us now."""
    bus = await connect(name="staller", ping_interval_s=60.0)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "probe": lambda: bus.probe(timeout_s=5),
        "js_api": lambda: bus.js_api("INFO", timeout_s=5),
        "pull": lambda: bus.pull("Q2", "other-recovery", expires_s=2.0),
    }

    async def call() -> None:
        await calls[asked]()

    asking = asyncio.create_task(call())
    for _ in range(5):  # until it is sent
        await asyncio.sleep(0)
    sent = time.monotonic()
    assert not asking.done()
    time.sleep(1.0)  # noqa: ASYNC251 - the stall is what is tested
    await asking
    now = time.monotonic()
    assert bus.contact_age_s() >= now - sent


async def test_a_delivery_that_came_during_a_stall_is_taken_or_comes_again(
    connect: Connect, admin_bus: Bus
) -> None:
    """Acked or given back: none stays with one who slept."""
    worker = await connect(roles.worker("other", "w1"), name="w1")
    subject = subjects.queue(1, unique("t"), "other", "interactive")
    pulling = asyncio.create_task(worker.pull("Q1", "other-interactive", expires_s=0.3))
    await asyncio.sleep(0.05)
    seq = (await admin_bus.publish_acked(subject, b"", message_id=uuid4().hex)).seq
    time.sleep(1.5)  # noqa: ASYNC251 - the stall is what is tested
    results = await asyncio.gather(pulling, return_exceptions=True)
    delivery = results[0]
    async with asyncio.timeout(15):
        while delivery is None or isinstance(delivery, BaseException):
            delivery = await worker.pull("Q1", "other-interactive")
    assert delivery.stream_seq == seq
    await delivery.ack()
    assert await worker.pull("Q1", "other-interactive", expires_s=2.5) is None


async def test_a_hearer_that_the_server_dropped_for_slowness_hears_again(
    connect: Connect, admin_bus: Bus
) -> None:
    """The server cuts who does not take 64 MiB; the bus notices, and comes back with its subscriptions."""
    bus = await connect(name="slow")
    subject = unique("flood")
    heard: list[int] = []
    lost, restored = asyncio.Event(), asyncio.Event()
    bus.on_lost, bus.on_restored = lost.set, restored.set
    await bus.subscribe(subject, lambda message: heard.append(len(message.data)))
    reader = bus._link.client._transport._io_reader
    reader._transport.pause_reading()  # as a loop does that has no time for this socket
    async with asyncio.timeout(20):
        while not lost.is_set():
            await admin_bus.publish(subject, bytes(1024 * 1024))
        await restored.wait()

    async def is_heard() -> bool:  # the other servers learn of the subscription a moment later
        await admin_bus.publish(subject, b"again")
        return 5 in heard

    await until(is_heard)


@pytest.mark.parametrize(
    "name",
    ["publish_acked", "request", "compare_and_set", "batch", "read_last", "pull", "subscribe",
     "js_api", "publish"],
)  # fmt: skip
async def test_a_call_that_is_cancelled_ends_as_cancelled_and_leaves_nothing(
    name: str, connect: Connect
) -> None:
    """At each of its first moments: no timeout in disguise, no question left open, and the connection goes on."""
    bus = await connect(name="cancelled")
    subject = unique("nobody")
    await bus.subscribe(subject, lambda _message: None)
    record = subjects.record("default", "t", uuid4().hex)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "publish_acked": lambda: bus.publish_acked(subject, b"", message_id=uuid4().hex),
        "request": lambda: bus.request(subject, timeout_s=5),
        "compare_and_set": lambda: bus.compare_and_set(record, b"", expected_seq=0),
        "batch": lambda: bus.batch([Write(record, b""), Write(record + "x", b"")]),
        "read_last": lambda: bus.read_last("0", "s.0.>"),
        "pull": lambda: bus.pull("Q2", "other-recovery", expires_s=1.0),
        "subscribe": lambda: bus.subscribe(unique("x"), lambda _message: None),
        "js_api": lambda: bus.js_api("INFO"),
        "publish": lambda: bus.publish(subject, bytes(1024 * 1024)),  # waits for the socket
    }
    subscriptions = len(bus._subscriptions)
    for rounds in range(4):

        async def call() -> None:
            await calls[name]()

        task = asyncio.create_task(call())
        for _ in range(rounds + 1):
            await asyncio.sleep(0)
        ended = task.done()
        task.cancel()
        result = (await asyncio.gather(task, return_exceptions=True))[0]
        assert ended or isinstance(result, asyncio.CancelledError)
        assert not bus._link._questions
    assert len(bus._subscriptions) <= subscriptions + 4
    assert await bus.probe(timeout_s=2)
    assert (await bus.js_api("INFO", timeout_s=5))["type"].endswith("account_info_response")


async def test_a_credential_that_is_renewed_under_load_loses_nothing(
    connect: Connect, provisioned_cluster: Cluster, admin_bus: Bus
) -> None:
    """Ten renewals in two seconds: all publishes are stored once, all deliveries settled, the subscription stays."""
    signer = provisioned_cluster.identity.signer
    bus = await connect(name="renewed")
    tenant = unique("t")
    heard: list[bytes] = []

    async def hear(message: Message) -> None:
        heard.append(message.data)

    await bus.subscribe(f"{tenant}.after", hear)
    ids: set[str] = set()
    done = asyncio.Event()

    async def publish() -> None:
        while not done.is_set():
            one = uuid4().hex
            await bus.publish_acked(
                subjects.task(tenant, "default", "batch"), one.encode(), message_id=one
            )
            ids.add(one)
            await asyncio.sleep(0.005)

    publishing = [asyncio.create_task(publish()) for _ in range(5)]
    for _ in range(10):
        await bus.use_credential(signer.mint("renewed", roles.admin(), expires_s=60))
        await asyncio.sleep(0.2)
    done.set()
    await asyncio.gather(*publishing)
    stored = await stored_of(admin_bus, tenant)
    assert {line.split()[1] for line in stored} == ids
    assert len(stored) == len(set(stored))
    assert len(ids) > 50
    async with asyncio.timeout(15):
        while not heard:
            await admin_bus.publish(f"{tenant}.after", b"on")
            await asyncio.sleep(0.02)
