"""Publishing until it is stored, when streams, servers or answers are missing: how often is asked, and what is said."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from uuid import uuid4

import pytest

from shared import subjects
from shared.bus import Bus, Message
from shared.cluster import Cluster, monitor
from shared.errors import OutcomeUnknown, Unavailable
from shared.ids import home
from shared.testing.faults import mend, strike
from shared.testing.names import unique
from shared.testing.plugin import Connect, server_of
from shared.testing.wait import until

PUBLISHERS = 300


def sent(bus: Bus, cluster: Cluster) -> int:
    """Return how many messages the bus' server has had from it, by the server's own count."""
    server = server_of(bus, cluster)
    listed = monitor.ask(server.ports.monitor, "/connz?limit=4096", host=server.host) or {}
    name = bus.options.name
    return sum(one["in_msgs"] for one in listed["connections"] if one["name"] == name)


def session_at_home(shard: int) -> str:
    """Return a session id whose home is a shard."""
    return next(sid for sid in (uuid4().hex for _ in range(1000)) if home(sid) == shard)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["killed", "hung", "cut"])
async def test_three_hundred_publishers_to_a_lost_stream_ask_one_at_a_time(
    fault: str, private_cluster: Cluster, connect: Connect
) -> None:
    """All are stored once when it is back; meanwhile a few requests go out, not thousands."""
    admin = await connect(cluster=private_cluster)
    info = await admin.js_api("STREAM.INFO.I1")
    victim = private_cluster.server(info["cluster"]["leader"])
    others = tuple(server.url for server in private_cluster.servers if server is not victim)
    bus = await connect(cluster=private_cluster, name="crowd", servers=others)
    session = session_at_home(1)
    assert server_of(bus, private_cluster) is not victim
    await strike(fault, victim)
    before, began = sent(bus, private_cluster), time.monotonic()
    acks = await asyncio.gather(
        *(
            bus.publish_acked(
                subjects.session_task("t", session, f"task{n:04d}"),
                b"%d" % n,
                message_id=f"{session}{n}",
                deadline_s=20,
            )
            for n in range(PUBLISHERS)
        )
    )
    waited_s = time.monotonic() - began
    requests = sent(bus, private_cluster) - before
    # Each asks once at first and once at the end; between lies one that asks, every 0.05 s at most.
    assert requests < 2 * PUBLISHERS + 20 * waited_s + 50
    assert {ack.stream for ack in acks} == {"I1"}
    stored = []
    after = 0
    while (
        found := await bus.read_next("I1", "in.1.t.>", after_seq=after, timeout_s=5)
    ) is not None:
        stored.append(int(found.data))
        after = found.seq
    assert sorted(stored) == list(range(PUBLISHERS))
    mend(victim)


async def test_who_asks_for_all_may_give_up(admin_bus: Bus) -> None:
    """Cancelled or at its deadline, the next one asks."""
    gates = admin_bus._link.gates
    session = session_at_home(2)

    def task(number: int) -> str:
        return subjects.session_task("t", session, f"task{number:04d}")

    subject = task(0)
    gates.shut(subject)
    gate = gates.find(subject)
    assert gate is not None
    assert await gate.wait_turn(1)
    with pytest.raises(Unavailable, match="another publish"):
        await admin_bus.publish_acked(subject, b"", message_id=uuid4().hex, deadline_s=0.3)
    waiting = [
        asyncio.create_task(admin_bus.publish_acked(task(n), b"", message_id=uuid4().hex))
        for n in range(3)
    ]
    await asyncio.sleep(0)
    waiting[0].cancel()
    gate.leave()
    assert (await asyncio.gather(*waiting[1:]))[0].stream == "I2"
    assert gates.find(subject) is None


async def test_a_lane_that_does_not_exist_does_not_hold_up_the_others(admin_bus: Bus) -> None:
    """Nobody listens there; the same stream's other lanes are asked as before."""
    lost = asyncio.create_task(
        admin_bus.publish_acked(
            "q.0.t.no-such-pool.batch", b"", message_id=uuid4().hex, deadline_s=2.5
        )
    )
    await asyncio.sleep(0.1)
    for _ in range(5):
        await admin_bus.publish_acked(
            subjects.queue(0, unique("t"), "default", "batch"),
            b"",
            message_id=uuid4().hex,
            deadline_s=0.4,
        )
    with pytest.raises(Unavailable):
        await lost


@pytest.mark.parametrize("answers", [False, True], ids=["silent", "answers nonsense"])
async def test_a_listener_where_no_stream_is_leaves_the_outcome_unknown(
    admin_bus: Bus, answers: bool
) -> None:
    """It looks like a stream whose answer was lost: said at the deadline, not later, and never taken for stored."""
    subject = unique("nostream")
    heard: Counter[str] = Counter()

    async def listen(message: Message) -> None:
        heard[message.headers["Nats-Msg-Id"]] += 1
        if answers:
            await admin_bus.publish(message.reply, b"hello")

    await admin_bus.subscribe(subject, listen)
    began = time.monotonic()
    with pytest.raises(OutcomeUnknown):
        await admin_bus.publish_acked(
            subject, b"", message_id="same-id-always", attempt_s=0.1, deadline_s=1.0
        )
    assert time.monotonic() - began < 5.0
    assert 1 < heard["same-id-always"] <= 21
    assert len(heard) == 1


async def test_large_messages_wait_for_the_socket_instead_of_filling_the_memory(
    admin_bus: Bus, connect: Connect
) -> None:
    """Of a mebibyte each, eight at once: all arrive, and never are more than two unsent."""
    subject = unique("large")
    hearer = await connect(name="hearer")
    sizes: list[int] = []
    await hearer.subscribe(subject, lambda message: sizes.append(len(message.data)))
    body = bytes(1024 * 1024)
    most = 0
    for wave in range(1, 6):
        for _ in range(8):
            await admin_bus.publish(subject, body)
            most = max(most, admin_bus._link.client.pending_data_size)
        await until(lambda wave=wave: len(sizes) == 8 * wave, within_s=20)
    assert set(sizes) == {len(body)}
    assert most <= 2 * len(body)


@pytest.mark.parametrize("fault", ["hung", pytest.param("cut", marks=pytest.mark.slow)])
async def test_what_a_silent_server_does_not_take_is_bounded_and_not_sent_later(
    fault: str, private_cluster: Cluster, connect: Connect
) -> None:
    """Past the bound publishing is refused; what waited is dropped with the connection, not sent over the next."""
    bus = await connect(cluster=private_cluster, pending_bytes_max=4 * 1024 * 1024)
    hearer = await connect(
        cluster=private_cluster,
        name="hearer",
        servers=tuple(url for url in private_cluster.urls if bus.server not in url),
    )
    heard: list[int] = []
    await hearer.subscribe("flood.*", lambda message: heard.append(int(message.subject[6:])))
    server = server_of(bus, private_cluster)
    lost, restored = asyncio.Event(), asyncio.Event()
    bus.on_lost, bus.on_restored = lost.set, restored.set
    await strike(fault, server)
    refused = 0
    number = 0
    async with asyncio.timeout(10):
        while not lost.is_set():
            try:
                bus._link.client.send(f"flood.{number}", bytes(256 * 1024))
            except Unavailable:
                refused += 1
            assert bus._link.client.pending_data_size <= 4 * 1024 * 1024 + 512 * 1024
            number += 1
            await asyncio.sleep(0.002)
        await restored.wait()
    assert refused
    await bus.publish("flood.1000000")
    await until(lambda: 1_000_000 in heard, within_s=10)
    assert heard == [1_000_000]
    mend(server)
