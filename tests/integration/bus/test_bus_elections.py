"""Leaders move while everything runs: step-downs by the hundred, and losses under pulls and batches."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from uuid import uuid4

import pytest

from shared import subjects
from shared.bus import Bus, Write
from shared.cluster import Cluster
from shared.errors import OutcomeUnknown, ServiceError, Unavailable
from shared.identity import roles
from shared.ids import home
from shared.testing.faults import mend, strike
from shared.testing.names import unique
from shared.testing.plugin import Connect, server_of
from shared.testing.wait import until

LANE = "default-interactive"


async def empty_lanes(bus: Bus) -> None:
    """Remove what other tests left in the queues."""
    for shard in range(3):
        await bus.js_api(f"STREAM.PURGE.Q{shard}", {})


async def step_down_again_and_again(bus: Bus, until_s: float) -> int:
    """Let every queue stream and the lane's consumers change their leaders; return how often it was done."""
    done = 0
    while time.monotonic() < until_s:
        for shard in range(3):
            for what in (
                f"STREAM.LEADER.STEPDOWN.Q{shard}",
                f"CONSUMER.LEADER.STEPDOWN.Q{shard}.{LANE}",
            ):
                with suppress(ServiceError):
                    await bus.js_api(what, timeout_s=0.5)
                    done += 1
        await asyncio.sleep(0.3)
    return done


@pytest.mark.slow
async def test_elections_under_load_lose_and_double_nothing(
    admin_bus: Bus, connect: Connect
) -> None:
    """Publishers, pullers and step-downs at once: each task is stored, pulled and settled; no puller stays deaf."""
    await empty_lanes(admin_bus)
    tenant = unique("t")
    workers = [await connect(roles.worker("default", f"w{n}"), name=f"w{n}") for n in range(3)]
    published: set[str] = set()
    pulled: Counter[str] = Counter()
    pulls = 0
    end = time.monotonic() + 4.0
    finished = asyncio.Event()

    async def publish() -> None:
        while time.monotonic() < end:
            one = uuid4().hex
            await admin_bus.publish_acked(
                subjects.task(tenant, "default", "interactive"), one.encode(), message_id=one
            )
            published.add(one)
            await asyncio.sleep(0.03)

    async def pull(bus: Bus, shard: int) -> None:
        nonlocal pulls
        while not finished.is_set():
            pulls += 1
            try:
                delivery = await bus.pull(f"Q{shard}", LANE)
                if delivery is not None:
                    await delivery.ack()
                    pulled[delivery.data.decode()] += 1
            except Unavailable:
                await asyncio.sleep(0.1)

    pullers = [
        asyncio.create_task(pull(bus, shard)) for shard, bus in enumerate(workers) for _ in range(2)
    ]
    began = time.monotonic()
    *_, moves = await asyncio.gather(
        *(publish() for _ in range(4)), step_down_again_and_again(admin_bus, end)
    )
    await until(lambda: published <= pulled.keys(), within_s=10)
    finished.set()
    await asyncio.gather(*pullers)
    assert moves >= 6
    assert len(published) > 50
    assert set(pulled) == published
    # A pull waits for 0.15 s or brings a message, and a lost ack brings it once more.
    assert pulls < 6 * (time.monotonic() - began) / 0.1 + sum(pulled.values()) + 50


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["killed", "hung", "stopped", "cut"])
async def test_a_puller_hears_on_after_its_consumers_leader_is_lost(
    fault: str, private_cluster: Cluster, connect: Connect
) -> None:
    """The library's `fetch` stays deaf until its own timeout; here each pull is a question of its own."""
    admin = await connect(cluster=private_cluster)
    info = await admin.js_api(f"CONSUMER.INFO.Q0.{LANE}")
    victim = private_cluster.server(info["cluster"]["leader"])
    bus = await connect(roles.worker("default", "w1"), name="w1", cluster=private_cluster)
    await strike(fault, victim)
    ids = [uuid4().hex for _ in range(20)]
    publishing = asyncio.gather(
        *(
            admin.publish_acked(
                subjects.queue(0, "t", "default", "interactive"),
                one.encode(),
                message_id=one,
                deadline_s=20,
            )
            for one in ids
        )
    )
    pulled: Counter[str] = Counter()
    pulls, began, back = 0, time.monotonic(), 0.0
    async with asyncio.timeout(25):
        while len(pulled) < len(ids):
            pulls += 1
            try:
                delivery = await bus.pull("Q0", LANE)
            except Unavailable:
                await asyncio.sleep(0.1)
                continue
            if delivery is not None:
                back = back or time.monotonic()
                pulled[delivery.data.decode()] += 1
                with suppress(Unavailable):
                    await delivery.ack()
    await publishing
    assert set(pulled) == set(ids)
    assert pulls < (time.monotonic() - began) / 0.1 + sum(pulled.values()) + 20
    assert time.monotonic() - back < 5.0  # an ack on the way to a lost leader costs one ack wait
    mend(victim)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["killed", "hung", "stopped", "cut"])
async def test_three_hundred_batches_at_once_survive_their_leader(
    fault: str, private_cluster: Cluster, connect: Connect
) -> None:
    """What was acknowledged is stored whole, what was definitely refused not at all, the rest one or the other."""
    buses = [
        await connect(roles.worker("default", f"w{n}"), name=f"w{n}", cluster=private_cluster)
        for n in range(6)
    ]
    admin = await connect(cluster=private_cluster)
    info = await admin.js_api("STREAM.INFO.0")
    victim = private_cluster.server(info["cluster"]["leader"])
    sessions = [sid for sid in (uuid4().hex for _ in range(2000)) if home(sid) == 0][:300]

    async def create(number: int, session: str) -> str:
        await asyncio.sleep(number / 1500)
        began = time.monotonic()
        writes = [
            Write(subjects.payload("default", "t", session), b"x" * 200, 0),
            Write(subjects.record("default", "t", session), b"y" * 200, 0),
        ]
        try:
            await buses[number % 6].batch(writes, timeout_s=2.0)
        except OutcomeUnknown:
            return "unknown"
        except Unavailable:
            return "refused"
        finally:
            assert time.monotonic() - began < 8.0
        return "stored"

    tasks = [asyncio.create_task(create(n, session)) for n, session in enumerate(sessions)]
    await asyncio.sleep(0.1)
    await strike(fault, victim)
    outcomes = dict(zip(sessions, await asyncio.gather(*tasks), strict=True))
    assert Counter(outcomes.values())["stored"] > 0
    async with asyncio.timeout(20):  # until there is a leader again
        while True:
            with suppress(Unavailable):
                await admin.read_last("0", "s.0.>", timeout_s=1)
                break
            await asyncio.sleep(0.1)
    for session, outcome in outcomes.items():
        record = await admin.read_last("0", subjects.record("default", "t", session), timeout_s=5)
        body = await admin.read_last("0", subjects.payload("default", "t", session), timeout_s=5)
        assert (record is None) == (body is None)
        if outcome != "unknown":
            assert (record is not None) == (outcome == "stored"), outcome
    mend(victim)


@pytest.mark.parametrize("fault", ["killed", pytest.param("cut", marks=pytest.mark.slow)])
async def test_a_shard_that_is_down_is_said_in_time_and_keeps_nobody_from_the_others(
    fault: str, private_cluster: Cluster, connect: Connect
) -> None:
    """Reads, pulls and writes of the lost shard end within their bound; those of the others go on meanwhile."""
    admin = await connect(cluster=private_cluster)
    leaders = [
        (await admin.js_api(f"STREAM.INFO.{shard}"))["cluster"]["leader"] for shard in range(3)
    ]
    victim = private_cluster.server(leaders[0])
    living = next(shard for shard in range(3) if leaders[shard] != victim.name)
    bus = await connect(
        cluster=private_cluster,
        servers=tuple(server.url for server in private_cluster.servers if server is not victim),
    )
    assert server_of(bus, private_cluster) is not victim
    await strike(fault, victim)
    said = 0
    end = time.monotonic() + 2.5  # no election is over so soon
    while time.monotonic() < end:
        began = time.monotonic()
        results = await asyncio.gather(
            bus.read_last("0", "s.0.>"),
            bus.compare_and_set(f"s.0.rec.default.t.{uuid4().hex}", b"", expected_seq=0),
            bus.read_last(str(living), f"s.{living}.>"),
            return_exceptions=True,
        )
        assert time.monotonic() - began < 2.5  # not the time of an election
        assert not isinstance(results[2], BaseException)
        if all(isinstance(result, Unavailable | OutcomeUnknown) for result in results[:2]):
            said += 1
        await asyncio.sleep(0.1)
    assert said
    mend(victim)
