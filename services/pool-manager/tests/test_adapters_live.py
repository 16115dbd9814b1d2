"""The adapters on real servers, under the rights that a pool-manager has."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pool_manager.adapters.nodes import StreamSlots
from pool_manager.adapters.queue import StreamQueue
from pool_manager.adapters.truth import StreamTruth, first_since
from pool_manager.core.lost import Bounds
from pool_manager.core.world import World
from pool_manager.loops.expire import Expirer
from shared import messages, subjects
from shared.bus import Bus
from shared.errors import Conflict
from shared.identity import roles
from shared.ids import home
from shared.messages import Slot, TaskResult
from shared.record import Record, State
from shared.testing.look import Look, until
from shared.testing.names import unique


@pytest.fixture
async def bus(clean_bus: Bus, connect: Any) -> Bus:
    """A connection with the rights of a pool-manager."""
    found: Bus = await connect(roles.pool_manager("pm-1"), name="pm-1")
    return found


def record(session: str, state: State = "closed") -> Record:
    """Return a record."""
    return Record(
        session=session,
        tenant="acme",
        pool="default",
        state=state,
        lane="batch",
        client_lane="batch",
        keep=False,
        accepted_ms=1,
    )


def result(session: str, task: str) -> TaskResult:
    """Return a result."""
    return TaskResult(task=task, session=session, tenant="acme", status="ok")


def on_shard(shard: int) -> str:
    """Return a new session whose home is this shard."""
    return next(name for name in iter(lambda: unique("session"), "") if home(name) == shard)


async def test_an_end_is_record_and_result_or_nothing(bus: Bus, look: Look) -> None:
    """A result that exists refuses both."""
    truth = StreamTruth(bus)
    session = unique("session")
    await truth.put_result(result(session, session))

    with pytest.raises(Conflict):
        await truth.end(record(session), 0, result(session, session))

    assert await look.record(session) is None


async def test_results_are_removed_after_their_time_and_no_later_ones(bus: Bus, look: Look) -> None:
    """By one purge, at the place that bisection finds."""
    truth = StreamTruth(bus)
    session = on_shard(1)
    tasks = [f"task-{number:04d}" for number in range(7)]
    for task in tasks:
        await truth.put_result(result(session, task))
    subject = subjects.stored_result("acme", session, tasks[4])
    kept = await bus.read_last("1", subject)
    assert kept is not None

    for time_ms in (0, kept.time_ms):
        found = await first_since(bus, "1", "s.1.done.>", time_ms)
        before = [await bus.read_next("1", "s.1.done.>", after_seq=0)]
        assert found <= kept.seq or before[0] is None
    removed = await truth.purge_results(1, kept.time_ms)

    assert removed <= 4
    left = [task for task in tasks if await look.result(session, task)]
    assert left == tasks[removed:]
    assert await truth.purge_results(1, int(time.time() * 1000) + 60_000) == 7 - removed
    assert await truth.purge_results(1, int(time.time() * 1000) + 60_000) == 0


async def test_ended_records_are_removed_after_their_time_with_their_payload(
    bus: Bus, look: Look
) -> None:
    """Sessions that live stay, however old their record is."""
    truth = StreamTruth(bus)
    ended, idle = on_shard(2), on_shard(2)
    for session, state in ((ended, "closed"), (idle, "idle")):
        await truth.write(record(session, state), 0)  # type: ignore[arg-type]  # a state
        payload = subjects.payload("default", "acme", session)
        await look.bus.compare_and_set(payload, b"{}", expected_seq=0)
    world = World("pm-1", [], Bounds(), time.monotonic())
    expirer = Expirer(world, truth, StreamQueue(bus))

    await expirer.remove_old(2)
    assert await look.record(ended) is not None
    expirer.kept_s = -60.0
    await expirer.remove_old(2)

    assert await look.record(ended) is None
    assert await look.record(idle) is not None
    left = [await bus.read_last("2", subjects.payload("default", "acme", s)) for s in (ended, idle)]
    assert [stored is None for stored in left] == [True, False]


async def test_a_scan_goes_on_after_what_it_has_seen(bus: Bus) -> None:
    """And past records that cannot be read, or that lie about whose they are."""
    truth = StreamTruth(bus)
    sessions = [on_shard(0) for _ in range(3)]
    seqs = [await truth.write(record(session, "idle"), 0) for session in sessions]
    lie = subjects.record("default", "acme", on_shard(0))
    await bus.compare_and_set(lie, messages.encode(record(sessions[0])), expected_seq=0)
    await bus.compare_and_set(subjects.record("default", "acme", on_shard(0)), b"{", expected_seq=0)

    everything = [known.record.session async for known in truth.scan(0, 0)]
    newer = [known.record.session async for known in truth.scan(0, seqs[1])]

    assert everything == sessions
    assert newer == sessions[2:]


async def test_a_token_goes_to_the_next_shard_when_its_home_does_not_answer(
    bus: Bus, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the shard is left alone for a while."""
    queue = StreamQueue(bus)
    session = on_shard(1)
    tried: list[str] = []
    publish = bus.publish_acked

    async def hung(subject: str, data: bytes, **options: Any) -> Any:
        tried.append(subject)
        if subject.startswith("q.1."):
            subject = "bell.nobody.batch.1"  # no stream takes it, no answer comes
        return await publish(subject, data, **(options | {"deadline_s": 0.3}))

    monkeypatch.setattr(bus, "publish_acked", hung)
    for number in range(2):
        await queue.send_token(record(session, "queued"), f"{session}:{number}")

    assert [subject.split(".")[1] for subject in tried] == ["1", "2", "2"]
    assert await look.tokens(session) == ["q.2.acme.default.batch"] * 2


async def test_a_slot_is_reserved_once_and_dropped_by_whoever_is_late(bus: Bus) -> None:
    """Dropping what is gone is no error."""
    slots = StreamSlots(bus)
    slot = Slot(
        pool="default", slot="d1-7", generation=1, pod="p", node="n", manager="pm-1", reserved_ms=1
    )
    seq = await slots.reserve(slot, 0)

    with pytest.raises(Conflict):
        await slots.reserve(slot, 0)
    assert await slots.read("default", "d1-7") == (slot, seq)

    async def is_scanned() -> bool:  # from some replica, which may be a moment behind
        return [found async for found in slots.scan()] == [(slot, seq)]

    await until(is_scanned)
    await slots.drop("d1-7", seq)
    await slots.drop("d1-7", seq)
    assert await slots.read("default", "d1-7") is None


async def test_queue_messages_are_counted_read_and_removed(bus: Bus, look: Look) -> None:
    """By lane, those in workers' hands included."""
    queue = StreamQueue(bus)
    session = unique("session")
    subject = subjects.queue(0, "acme", "default", "batch")
    ack = await look.bus.publish_acked(subject, b"{}", message_id=session)
    delivery = await look.bus.pull("Q0", "default-batch", expires_s=1.0)
    assert delivery is not None

    assert await queue.counts(0) == {("default", "batch"): 1}
    message = await queue.next_message(0, "default", "batch", after_seq=0)
    assert message is not None
    assert (message.seq, message.message_id, message.token) == (ack.seq, session, None)
    await queue.remove(0, message.seq)
    await queue.remove(0, message.seq)
    assert await queue.counts(0) == {}
