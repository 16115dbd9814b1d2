"""Reading streams on three real servers: the leader's newest word, results, scans."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

import pytest

from shared import subjects
from shared.bus import Bus
from shared.errors import Forbidden, NotFound, Unavailable
from shared.identity import roles
from shared.ids import home
from shared.testing.names import unique
from shared.testing.plugin import Connect
from shared.testing.wait import until


@pytest.fixture
def session() -> str:
    """A session id that no other test uses."""
    return uuid4().hex


@pytest.fixture
async def worker(connect: Connect) -> Bus:
    """A worker of the pool `default`."""
    return await connect(roles.worker("default", "w1"), name="w1")


async def test_a_leader_read_finds_by_wildcard_and_in_order(worker: Bus, session: str) -> None:
    """The record without its pool, and the first inbox entry after a sequence."""
    await worker.compare_and_set(subjects.record("default", "t", session), b"1", expected_seq=0)
    found = await worker.read_last(str(home(session)), subjects.any_pool_record("t", session))
    assert found is not None
    assert subjects.parse_record(found.subject) == ("default", "t", session)
    assert abs(found.time_ms / 1000 - time.time()) < 60
    assert await worker.read_last(str(home(session)), f"s.*.rec.*.t.{uuid4().hex}") is None


async def test_inbox_entries_are_read_in_order(worker: Bus, admin_bus: Bus, session: str) -> None:
    """Each read goes on after the last one's sequence."""
    for number in range(3):
        await admin_bus.publish_acked(
            subjects.session_task("t", session, f"task000{number}"),
            b"%d" % number,
            message_id=f"{session}{number}",
        )
    read: list[bytes] = []
    after = 0
    stream = subjects.inbox_stream(home(session))
    while (
        entry := await worker.read_next(stream, subjects.inbox("t", session), after_seq=after)
    ) is not None:
        read.append(entry.data)
        after = entry.seq
    assert read == [b"0", b"1", b"2"]


async def test_a_read_of_a_stream_that_is_not_there_is_an_error(admin_bus: Bus) -> None:
    """No message, and no stream: two things."""
    with pytest.raises(NotFound, match="stream not found"):
        await admin_bus.read_last(unique("nothing"), "s.0.rec.a.b.c")


async def test_a_result_is_read_by_one_request(
    worker: Bus, connect_client: Connect, session: str
) -> None:
    """The mapping leads to a direct get; before it is stored there is none."""
    client = await connect_client("t")
    assert await client.read_result("t", session, "task0001") is None
    await worker.compare_and_set(
        subjects.stored_result("t", session, "task0001"), b"result", expected_seq=0
    )
    results: list[bytes | None] = []

    async def is_there() -> bool:  # any replica answers, perhaps one that has not heard of it yet
        results.append(await client.read_result("t", session, "task0001"))
        return results[-1] is not None

    await until(is_there)
    assert results[-1] == b"result"


async def test_a_scan_yields_the_last_value_of_each_subject(worker: Bus, admin_bus: Bus) -> None:
    """More than one batch, replaced values included once."""
    tenant = unique("t")
    written: dict[str, bytes] = {}
    sessions = [session for session in (uuid4().hex for _ in range(300)) if home(session) == 0]
    for number, session in enumerate(sessions):
        subject = subjects.record("default", tenant, session)
        seq = await worker.compare_and_set(subject, b"old", expected_seq=0)
        written[subject] = b"%d" % number
        await worker.compare_and_set(subject, written[subject], expected_seq=seq)
    read: dict[str, bytes] = {}
    async with asyncio.timeout(10):
        while read != written:  # from any replica: perhaps a moment behind
            read = {
                stored.subject: stored.data
                async for stored in admin_bus.scan("0", f"s.0.rec.default.{tenant}.*", batch=16)
            }


async def test_a_scan_goes_on_after_a_sequence(worker: Bus, admin_bus: Bus, session: str) -> None:
    """With `after_seq` it yields what was written since."""
    seq = await worker.compare_and_set(
        subjects.record("default", "t", session), b"1", expected_seq=0
    )
    stream, subject = str(home(session)), f"s.*.rec.default.t.{session}"

    async def is_there() -> bool:
        return [s.seq async for s in admin_bus.scan(stream, subject, after_seq=seq - 1)] == [seq]

    await until(is_there)
    assert [s async for s in admin_bus.scan(stream, subject, after_seq=seq)] == []


async def test_a_scan_of_a_large_stream_is_complete(admin_bus: Bus) -> None:
    """Messages of 100 KiB: the servers end a batch early by size, and the scan goes on."""
    tenant = unique("t")
    sessions = [session for session in (uuid4().hex for _ in range(200)) if home(session) == 1][:40]
    for session in sessions:
        await admin_bus.compare_and_set(
            subjects.record("default", tenant, session), b"x" * 100_000, expected_seq=0, timeout_s=5
        )
    read = 0
    async with asyncio.timeout(20):
        while read != len(sessions):
            read = len([s async for s in admin_bus.scan("1", f"s.1.rec.default.{tenant}.*")])


async def test_api_errors_say_whether_it_happened(admin_bus: Bus, worker: Bus) -> None:
    """Not there, not allowed."""
    with pytest.raises(NotFound):
        await admin_bus.js_api("STREAM.INFO.nothing")
    with pytest.raises(Forbidden):
        await worker.js_api("STREAM.INFO.Q0")


async def test_nobody_listening_is_definite(admin_bus: Bus) -> None:
    """A request that nobody took surely did not happen."""
    with pytest.raises(Unavailable, match="nobody listens"):
        await admin_bus.request(unique("nothing"), timeout_s=5)
