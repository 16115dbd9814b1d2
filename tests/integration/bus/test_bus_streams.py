"""Publishing into streams and reading them, on three real servers."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

import pytest

from shared import limits, subjects
from shared.bus import Bus, Message, Write
from shared.bus.types import NOBODY_S
from shared.errors import Conflict, LimitExceeded, NotFound, Rejected, Unavailable
from shared.identity import roles
from shared.ids import home
from shared.testing.names import unique
from shared.testing.plugin import Connect
from shared.topology import RESULT_BYTES_MAX


@pytest.fixture
def session() -> str:
    """A session id that no other test uses."""
    return uuid4().hex


@pytest.fixture
async def worker(connect: Connect) -> Bus:
    """A worker of the pool `default`."""
    return await connect(roles.worker("default", "w1"), name="w1")


async def test_a_publish_repeated_under_its_id_is_stored_once(admin_bus: Bus) -> None:
    """The second acknowledgement names the first message and says that it is a duplicate."""
    subject = subjects.task(unique("t"), "default", "interactive")
    message_id = uuid4().hex
    # The mapping may choose another shard at each try, and each stream knows its own ids only.
    acks = [await admin_bus.publish_acked(subject, b"{}", message_id=message_id) for _ in range(12)]
    by_stream: dict[str, set[int]] = {}
    for ack in acks:
        by_stream.setdefault(ack.stream, set()).add(ack.seq)
    assert all(len(seqs) == 1 for seqs in by_stream.values())
    assert sum(not ack.duplicate for ack in acks) == len(by_stream)


async def test_new_sessions_are_spread_over_all_shards(admin_bus: Bus) -> None:
    """The account's mapping sends tasks to the three queue streams by weight."""
    subject = subjects.task(unique("t"), "default", "batch")
    acks = await asyncio.gather(
        *(admin_bus.publish_acked(subject, b"{}", message_id=uuid4().hex) for _ in range(60))
    )
    assert {ack.stream for ack in acks} == {"Q0", "Q1", "Q2"}


async def test_the_next_task_of_a_session_goes_to_its_home(admin_bus: Bus, session: str) -> None:
    """The servers' partition function and ours name the same shard."""
    subject = subjects.session_task(unique("t"), session, "task0001")
    ack = await admin_bus.publish_acked(subject, b"{}", message_id="task0001")
    assert ack.stream == subjects.inbox_stream(home(session))


async def test_a_task_id_is_taken_once_by_an_inbox(admin_bus: Bus, session: str) -> None:
    """The same id again is the same message; another message under the same task is refused."""
    subject = subjects.session_task(unique("t"), session, "task0001")
    first = await admin_bus.publish_acked(subject, b"{}", message_id=f"{session}1")
    again = await admin_bus.publish_acked(subject, b"{}", message_id=f"{session}1")
    assert (again.seq, again.duplicate) == (first.seq, True)
    with pytest.raises(LimitExceeded, match="maximum messages per subject"):
        await admin_bus.publish_acked(subject, b"{}", message_id=f"{session}2")


async def test_a_publish_to_no_stream_is_definitely_refused(admin_bus: Bus) -> None:
    """An unknown pool is told apart from a shard that elects its leader."""
    with pytest.raises(NotFound, match="no stream takes"):
        await admin_bus.publish_acked(
            subjects.task("t", unique("nopool"), "batch"), b"", message_id=uuid4().hex
        )


async def test_a_subject_of_one_stream_is_tried_until_the_deadline(admin_bus: Bus) -> None:
    """Nobody takes it while that stream elects its leader, for up to nine seconds: no reason to say that there is none."""
    deadline_s = NOBODY_S + 1.0
    began = time.monotonic()
    with pytest.raises(Unavailable):
        await admin_bus.publish_acked(
            "in.9.t.session.task", b"", message_id=uuid4().hex, deadline_s=deadline_s
        )
    assert time.monotonic() - began > NOBODY_S


async def test_a_body_over_the_limit_is_definitely_refused(admin_bus: Bus) -> None:
    """The stream's own bound answers at once."""
    body = b"x" * (limits.BODY_BYTES_MAX + 16 * 1024)
    with pytest.raises(LimitExceeded, match="size exceeds"):
        await admin_bus.publish_acked(
            subjects.task("t", "default", "batch"), body, message_id=uuid4().hex
        )


async def test_a_message_over_the_servers_limit_is_not_sent(admin_bus: Bus) -> None:
    """It would cost the connection."""
    with pytest.raises(LimitExceeded, match="the servers take"):
        await admin_bus.publish("anything.at.all", b"x" * (2 * 1024 * 1024))
    assert admin_bus.connected


async def test_compare_and_set_fails_on_another_sequence(worker: Bus, session: str) -> None:
    """Create, replace, and a stale writer."""
    subject = subjects.record("default", "t", session)
    created = await worker.compare_and_set(subject, b"1", expected_seq=0)
    replaced = await worker.compare_and_set(subject, b"2", expected_seq=created)
    for stale in (0, created):
        with pytest.raises(Conflict):
            await worker.compare_and_set(subject, b"3", expected_seq=stale)
    stored = await worker.read_last(str(home(session)), subject)
    assert stored is not None
    assert (stored.data, stored.seq) == (b"2", replaced)


async def test_one_of_many_creators_wins(worker: Bus, session: str) -> None:
    """Fifty at once: one sequence, forty-nine conflicts."""
    subject = subjects.record("default", "t", session)
    results = await asyncio.gather(
        *(worker.compare_and_set(subject, b"%d" % n, expected_seq=0) for n in range(50)),
        return_exceptions=True,
    )
    won = [n for n, result in enumerate(results) if isinstance(result, int)]
    assert len(won) == 1
    assert all(isinstance(result, Conflict | int) for result in results)
    stored = await worker.read_last(str(home(session)), subject)
    assert stored is not None
    assert stored.data == b"%d" % won[0]


async def test_a_batch_stores_all_or_nothing(worker: Bus, session: str) -> None:
    """A stale record keeps the result beside it out, too."""
    record = subjects.record("default", "t", session)
    result = subjects.stored_result("t", session, "task0001")
    created = await worker.batch(
        [Write(subjects.payload("default", "t", session), b"body", 0), Write(record, b"1", 0)]
    )
    with pytest.raises(Conflict):
        await worker.batch([Write(result, b"r", 0), Write(record, b"2", created - 1)])
    assert await worker.read_last(str(home(session)), result) is None
    done = await worker.batch([Write(result, b"r", 0), Write(record, b"2", created)])
    stored = await worker.read_last(str(home(session)), record)
    assert stored is not None
    assert (stored.seq, stored.data) == (done, b"2")


async def test_a_batch_says_which_message_was_too_large(worker: Bus, session: str) -> None:
    """The commit alone would only say that the batch is incomplete."""
    large = b"x" * RESULT_BYTES_MAX
    with pytest.raises(LimitExceeded, match="size exceeds"):
        await worker.batch(
            [
                Write(subjects.stored_result("t", session, "task0001"), large, 0),
                Write(subjects.record("default", "t", session), b"1", 0),
            ]
        )
    assert await worker.read_last(str(home(session)), f"s.*.*.t.{session}.>") is None


async def test_three_hundred_batches_at_once_are_all_stored(
    connect: Connect, provisioned_cluster: object
) -> None:
    """The servers' default of fifty open batches is raised, and a batch is open only for a moment."""
    workers = [await connect(roles.worker("default", f"w{n}"), name=f"w{n}") for n in range(6)]

    async def create(number: int) -> int:
        session = uuid4().hex
        return await workers[number % 6].batch(
            [
                Write(subjects.payload("default", "t", session), b"x" * 200, 0),
                Write(subjects.record("default", "t", session), b"y" * 200, 0),
            ],
            timeout_s=10,
        )

    seqs = await asyncio.gather(*(create(number) for number in range(300)))
    assert len(seqs) == 300


@pytest.mark.parametrize("count", [0, 1001])
async def test_a_batch_of_no_or_too_many_messages_is_refused(worker: Bus, count: int) -> None:
    """Before anything is sent."""
    with pytest.raises(Rejected):
        await worker.batch([Write("s.0.rec.default.t.x", b"")] * count)


async def test_records_and_results_are_heard_whole_when_a_batch_stores_them(
    worker: Bus, admin_bus: Bus, session: str
) -> None:
    """The stream republishes what a batch stored, with its sequence, under the short subjects."""
    heard: asyncio.Queue[tuple[str, bytes, str]] = asyncio.Queue()

    def note(message: Message) -> None:
        heard.put_nowait((message.subject, message.data, message.headers["Nats-Sequence"]))

    await admin_bus.subscribe(f"rec.default.t.{session}", note)
    await admin_bus.subscribe(f"done.t.{session}.*", note)
    record = subjects.record("default", "t", session)
    seq = await worker.batch(
        [
            Write(subjects.stored_result("t", session, "task0001"), b"result", 0),
            Write(record, b"record", 0),
        ]
    )
    async with asyncio.timeout(15):
        messages = {await heard.get(), await heard.get()}
    assert messages == {
        (f"done.t.{session}.task0001", b"result", str(seq - 1)),
        (f"rec.default.t.{session}", b"record", str(seq)),
    }
