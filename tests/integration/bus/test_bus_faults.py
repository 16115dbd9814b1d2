"""A server dies or hangs while clients publish: nothing lost, nothing doubled, nobody waits past his deadline."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from uuid import uuid4

import pytest

from shared import subjects
from shared.bus import Bus, Write
from shared.cluster import Cluster
from shared.cluster.server import ServerProcess
from shared.errors import Conflict, OutcomeUnknown, Unavailable
from shared.ids import home
from shared.testing.faults import mend, strike
from shared.testing.plugin import Connect, server_of

RATE_PER_S = 60
BEFORE_S = 1.0
AFTER_S = 4.0

GAP_MAX_S = {"killed": 1.0, "hung": 2.0, "stopped": 1.0, "cut": 2.0}
"""Longest time between two acknowledgements of new sessions; the rest of a second is for a busy machine."""
SLACK_S = 1.5


def at_once(first: str) -> list[object]:
    """Return all four kinds of loss, three of them for the slow run: the rule is the same for each.

    One test is driven at once by a loss that ends connections, another by one that does not.
    """
    return [
        first,
        *(pytest.param(fault, marks=pytest.mark.slow) for fault in GAP_MAX_S if fault != first),
    ]


async def leader_of(bus: Bus, cluster: Cluster, stream: str) -> ServerProcess:
    """Return the server that leads a stream."""
    info = await bus.js_api(f"STREAM.INFO.{stream}")
    return cluster.server(info["cluster"]["leader"])


async def connect_to(connect: Connect, cluster: Cluster, first: int, **options: object) -> Bus:
    """Connect to one server, knowing the others: a connection takes any of them, so until it is that one."""
    while True:
        bus = await connect(cluster=cluster, **options)
        if cluster.urls[first] == f"nats://{bus.server}":
            return bus
        await bus.close()


@pytest.mark.parametrize("fault", at_once("killed"))
async def test_new_sessions_are_accepted_while_a_queue_leader_is_lost(
    fault: str, private_cluster: Cluster, connect: Connect
) -> None:
    """Every publish is acknowledged and stored, by a shard that lives; the gap is short."""
    clients = [await connect_to(connect, private_cluster, n) for n in range(3)]
    victim = await leader_of(clients[0], private_cluster, "Q0")
    acked: dict[str, float] = {}

    async def publish(number: int) -> None:
        message_id = uuid4().hex
        await clients[number % 3].publish_acked(
            subjects.task("t", "default", "batch"),
            message_id.encode(),
            message_id=message_id,
            attempt_s=0.4,
        )
        acked[message_id] = time.monotonic()

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(int(RATE_PER_S * (BEFORE_S + AFTER_S))):
            await asyncio.sleep(max(0.0, began + number / RATE_PER_S - time.monotonic()))
            if number == int(RATE_PER_S * BEFORE_S):
                group.create_task(strike(fault, victim))
            group.create_task(publish(number))
    mend(victim)
    times = sorted(acked.values())
    gap_s = max(late - early for early, late in itertools.pairwise(times))
    assert gap_s < GAP_MAX_S[fault] + SLACK_S
    await check_stored(clients, private_cluster, acked)


async def check_stored(clients: list[Bus], cluster: Cluster, acked: dict[str, float]) -> None:
    """Every id is in some shard, and at most once in each."""
    stored: Counter[tuple[str, str]] = Counter()
    alive = next(bus for bus in clients if bus.connected)
    for shard in range(3):
        after = 0
        while True:
            async with asyncio.timeout(30):
                try:
                    message = await alive.read_next(
                        f"Q{shard}", f"q.{shard}.>", after_seq=after, timeout_s=1
                    )
                except Unavailable:
                    await asyncio.sleep(0.1)
                    continue
            if message is None:
                break
            after = message.seq
            stored[f"Q{shard}", message.data.decode()] += 1
    assert {message_id for _, message_id in stored} == set(acked)
    assert set(stored.values()) == {1}


@pytest.mark.parametrize("fault", at_once("cut"))
async def test_a_sessions_writes_go_on_after_its_home_elected(
    fault: str, private_cluster: Cluster, connect: Connect
) -> None:
    """One writer, many compare-and-sets, a leader lost in the middle: each took effect exactly once."""
    session = uuid4().hex
    shard = str(home(session))
    bus = await connect(cluster=private_cluster)
    record = subjects.record("default", "t", session)
    victim = await leader_of(bus, private_cluster, shard)
    seq, written, waits = 0, 0, [0.0]
    end = time.monotonic() + 25
    while written < 40:
        assert time.monotonic() < end, f"only {written} written"
        if written == 10:
            await strike(fault, victim)
        body = b"%d" % written
        result = subjects.stored_result("t", session, f"task{written:04d}")
        began = time.monotonic()
        try:
            seq = await bus.batch([Write(result, body, 0), Write(record, body, seq)])
        except (Unavailable, OutcomeUnknown, Conflict):
            # What a worker does: read, and decide by what is there.
            waits.append(time.monotonic() - began)
            try:
                stored = await bus.read_last(shard, record)
            except Unavailable:
                await asyncio.sleep(0.1)
                continue
            if stored is not None:
                seq = stored.seq
                written = int(stored.data) + 1
            continue
        written += 1
    mend(victim)
    assert max(waits) < 0.5 + SLACK_S
    results = []
    async with asyncio.timeout(20):
        while len(results) < 40:
            results = [int(s.data) async for s in bus.scan(shard, f"s.{shard}.done.t.{session}.*")]
    assert results == list(range(40))


@pytest.mark.parametrize(
    "fault", ["hung", *(pytest.param(f, marks=pytest.mark.slow) for f in ("cut", "killed"))]
)
async def test_no_call_outlives_its_deadline(
    fault: str, private_cluster: Cluster, connect: Connect
) -> None:
    """With the only known server lost and two more gone, every call ends, and says that it may have happened or not."""
    bus = await connect(cluster=private_cluster)
    await bus.js_api("INFO")
    for server in private_cluster.servers:
        await strike(fault, server)
    calls: dict[str, tuple[float, Callable[[], Awaitable[object]]]] = {
        "publish_acked": (
            1.5,
            lambda: bus.publish_acked(
                "task.t.default.batch", b"", message_id="deadline1", deadline_s=1.5
            ),
        ),
        "compare_and_set": (
            0.5,
            lambda: bus.compare_and_set("s.0.rec.default.t.x", b"", expected_seq=0),
        ),
        "batch": (
            0.5,
            lambda: bus.batch(
                [Write("s.0.rec.default.t.y", b""), Write("s.0.rec.default.t.z", b"")]
            ),
        ),
        "read_last": (0.5, lambda: bus.read_last("0", "s.0.>")),
        "read_result": (0.5, lambda: bus.read_result("t", "session1", "task0001")),
        "pull": (0.65, lambda: bus.pull("Q0", "default-batch")),
        "request": (0.5, lambda: bus.request("ask.t.pools", timeout_s=0.5)),
        "subscribe": (2.0, lambda: bus.subscribe("some.where", lambda _message: None)),
        "js_api": (2.0, lambda: bus.js_api("INFO")),
    }

    async def timed(name: str) -> tuple[str, float, BaseException | object]:
        began = time.monotonic()
        result = (await asyncio.gather(calls[name][1](), return_exceptions=True))[0]
        return name, time.monotonic() - began, result

    for name, took_s, result in await asyncio.gather(*(timed(name) for name in calls)):
        assert isinstance(result, Unavailable | OutcomeUnknown), (name, result)
        assert took_s < calls[name][0] + SLACK_S, name
    async with asyncio.timeout(10):
        await bus.close()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["cut", "hung"])
async def test_a_silent_server_is_left_behind_a_full_buffer(
    fault: str, private_cluster: Cluster, connect: Connect
) -> None:
    """Bytes that the server does not take must not hold the reconnect back."""
    bus = await connect(cluster=private_cluster)
    restored = asyncio.Event()
    bus.on_restored = restored.set
    server = server_of(bus, private_cluster)
    await strike(fault, server)
    began = time.monotonic()
    while not restored.is_set():
        assert time.monotonic() - began < 15.0
        with suppress(Unavailable, OutcomeUnknown):
            async with asyncio.timeout(3.0):
                await bus.publish("some.where", b"x" * 65536)
        await asyncio.sleep(0.002)
    mend(server)
    async with asyncio.timeout(20):  # if it led, nobody answers until another is elected
        while True:
            with suppress(OutcomeUnknown):
                await bus.js_api("INFO")
                break


async def test_an_idle_connection_leaves_a_hung_server_once_it_is_asked(
    private_cluster: Cluster, connect: Connect
) -> None:
    """Pings once a minute are cheap but slow; an unanswered question makes the bus look at once."""
    bus = await connect(cluster=private_cluster, ping_interval_s=60.0)
    restored = asyncio.Event()
    bus.on_restored = restored.set
    server = server_of(bus, private_cluster)
    server.pause()
    with pytest.raises(Unavailable):
        await bus.pull("Q0", "default-batch")
    async with asyncio.timeout(15):
        await restored.wait()
    server.resume()


async def test_subscriptions_survive_the_loss_of_a_server(
    private_cluster: Cluster, connect: Connect
) -> None:
    """The hearer's server is killed; it hears on through another."""
    hearer = await connect(cluster=private_cluster)
    restored = asyncio.Event()
    hearer.on_restored = restored.set
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    await hearer.subscribe("news", lambda message: heard.put_nowait(message.data))
    server = server_of(hearer, private_cluster)
    teller = await connect_to(
        connect, private_cluster, (private_cluster.servers.index(server) + 1) % 3
    )
    server.kill()
    async with asyncio.timeout(15):
        await restored.wait()
    async with asyncio.timeout(15):
        while heard.empty():  # until the interest has reached the teller's server
            await teller.publish("news", b"on")
            await asyncio.sleep(0.02)
    assert await heard.get() == b"on"
