"""Records, results and inboxes over the state and inbox streams."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from pool_manager.core.clock import ServerClock
from pool_manager.ports import Entry, Known
from shared import headers, logs, messages, subjects
from shared.bus import Bus, Stored, Write
from shared.classes import asked_class
from shared.errors import InvalidMessage, NotFound, ServiceError
from shared.ids import home
from shared.messages import TaskResult
from shared.record import Record
from shared.times import time_ms_of
from shared.traces import read_context

log = logs.get(__name__)

ANSWER_S = 0.5


class StreamTruth:
    """Implements `ports.Truth`."""

    def __init__(
        self,
        bus: Bus,
        clock: ServerClock | None = None,
        on_end: Callable[[Record, TaskResult, int], None] | None = None,
    ) -> None:
        """Use the service's connection.

        Args:
            bus: the connection.
            clock: learns the servers' time from their answers.
            on_end: called with record, result and the wall clock (ns) before the write of each end that is stored.
        """
        self._on_end = on_end
        self._bus = bus
        self._clock = clock or ServerClock()

    async def read(self, tenant: str, session: str) -> Known | None:
        """Return a session's record, whichever pool it is in."""
        stored = await self._bus.read_last(
            _state_of(session), subjects.any_pool_record(tenant, session), timeout_s=ANSWER_S
        )
        return None if stored is None else _known(stored)

    async def answers(self, shard: int, timeout_s: float) -> bool:
        """Return whether a state shard has a leader that answers in time."""
        try:
            await self._bus.read_last(
                subjects.state_stream(shard), f"s.{shard}.nothing", timeout_s=timeout_s
            )
        except ServiceError:
            return False
        return True

    async def write(self, record: Record, expected_seq: int) -> int:
        """Write a record by compare-and-set; return its new sequence."""
        return await self._bus.compare_and_set(
            _subject_of(record),
            messages.encode(record),
            expected_seq=expected_seq,
            timeout_s=ANSWER_S,
        )

    async def end(self, record: Record, expected_seq: int, result: TaskResult) -> int:
        """Write record and result in one batch; return the record's sequence."""
        begun_ns = time.time_ns()
        seq = await self._bus.batch(
            [
                Write(_result_of(result), messages.encode(result), expected_seq=0),
                Write(_subject_of(record), messages.encode(record), expected_seq=expected_seq),
            ],
            timeout_s=ANSWER_S,
        )
        if self._on_end is not None:
            self._on_end(record, result, begun_ns)
        return seq

    async def put_result(self, result: TaskResult) -> None:
        """Write a result, only if there is none."""
        await self._bus.compare_and_set(
            _result_of(result), messages.encode(result), expected_seq=0, timeout_s=ANSWER_S
        )

    async def result(self, tenant: str, session: str, task: str) -> TaskResult | None:
        """Return a task's result, as the leader has it."""
        stored = await self._bus.read_last(
            _state_of(session), subjects.stored_result(tenant, session, task), timeout_s=ANSWER_S
        )
        return None if stored is None else messages.decode(stored.data, TaskResult)

    async def next_entry(self, tenant: str, session: str, after_seq: int) -> Entry | None:
        """Return the session's inbox entry that follows stream sequence `after_seq`."""
        wanted = subjects.inbox(tenant, session)
        return await self._next_entry(home(session), wanted, after_seq)

    async def next_of_tenant(self, shard: int, tenant: str, after_seq: int) -> Entry | None:
        """Return the inbox entry of any of a tenant's sessions that follows stream sequence `after_seq`."""
        return await self._next_entry(shard, f"in.{shard}.{tenant}.*.*", after_seq)

    async def _next_entry(self, shard: int, wanted: str, after_seq: int) -> Entry | None:
        stored = await self._bus.read_next(
            subjects.inbox_stream(shard), wanted, after_seq=after_seq, timeout_s=ANSWER_S
        )
        return None if stored is None else _entry(stored)

    async def entry(self, tenant: str, session: str, task: str) -> Entry | None:
        """Return a task's inbox entry."""
        stored = await self._bus.read_last(
            subjects.inbox_stream(home(session)),
            subjects.inbox(tenant, session, task),
            timeout_s=ANSWER_S,
        )
        return None if stored is None else _entry(stored)

    async def payload(self, record: Record) -> bytes | None:
        """Return the body of a session's first task."""
        subject = subjects.payload(record.pool, record.tenant, record.session)
        stored = await self._bus.read_last(_state_of(record.session), subject, timeout_s=ANSWER_S)
        return None if stored is None else stored.data

    async def inbox_subjects(self, shard: int) -> list[tuple[str, str, str]]:
        """Return (tenant, session, task) of every inbox entry of a shard."""
        found: list[tuple[str, str, str]] = []
        while True:
            info = await self._bus.js_api(
                f"STREAM.INFO.{subjects.inbox_stream(shard)}",
                {"subjects_filter": ">", "offset": len(found)},
            )
            note_time(self._clock, info)
            page = info["state"].get("subjects") or {}
            found += [subjects.parse_task(subject) for subject in page]
            if not page or len(found) >= info.get("total", 0):
                return found

    async def remove_entry(self, shard: int, seq: int) -> None:
        """Remove one inbox entry by its stream sequence."""
        with suppress(NotFound):
            await self._bus.js_api(
                f"STREAM.MSG.DELETE.{subjects.inbox_stream(shard)}", {"seq": seq, "no_erase": True}
            )

    async def purge_inbox(self, tenant: str, session: str, position: int) -> None:
        """Remove the session's inbox entries up to stream sequence `position`."""
        await self._bus.js_api(
            f"STREAM.PURGE.{subjects.inbox_stream(home(session))}",
            {"filter": subjects.inbox(tenant, session), "seq": position + 1},
        )

    async def scan(self, shard: int, after_seq: int) -> AsyncIterator[Known]:
        """Read the records of a shard that were written after `after_seq`, in order."""
        async for stored in self._bus.scan(
            subjects.state_stream(shard), f"s.{shard}.rec.>", after_seq=after_seq
        ):
            try:
                yield _known(stored)
            except InvalidMessage as exc:
                log.warning("record.unreadable", subject=stored.subject, error=str(exc))

    async def purge_results(self, shard: int, older_than_ms: int) -> int:
        """Remove a shard's results that were stored before then; return how many."""
        stream, results = subjects.state_stream(shard), f"s.{shard}.done.>"
        first = await self._bus.read_next(stream, results, after_seq=0)
        if first is None or first.time_ms >= older_than_ms:
            return 0
        kept = await first_since(self._bus, stream, results, older_than_ms)
        info = await self._bus.js_api(f"STREAM.PURGE.{stream}", {"filter": results, "seq": kept})
        return int(info.get("purged", 0))

    async def next_record(self, shard: int, after_seq: int) -> Known | None:
        """Return the shard's record that follows stream sequence `after_seq`."""
        stored = await self._bus.read_next(
            subjects.state_stream(shard), f"s.{shard}.rec.>", after_seq=after_seq
        )
        return None if stored is None else _known(stored)

    async def remove_record(self, record: Record) -> None:
        """Remove an ended session's first payload, then its record."""
        where = (record.pool, record.tenant, record.session)
        for subject in (subjects.payload(*where), subjects.record(*where)):
            await self._bus.js_api(f"STREAM.PURGE.{_state_of(record.session)}", {"filter": subject})


def note_time(clock: ServerClock, info: dict[str, Any]) -> None:
    """Tell the clock what time a server's answer about a stream gives."""
    if (text := info.get("ts")) is not None:
        clock.saw(time_ms_of(text), int(time.time() * 1000))


async def first_since(bus: Bus, stream: str, subject: str, time_ms: int) -> int:
    """Return a sequence such that what lies before it was stored before `time_ms`, and nothing younger does.

    Messages lie in the order of their times, so bisection finds it.
    """
    last = await _last_seq(bus, stream)
    low, high, found = 0, last, last + 1
    while low < high:
        middle = (low + high) // 2
        stored = await bus.read_next(stream, subject, after_seq=middle)
        if stored is None or stored.seq > last:
            high = middle
        elif stored.time_ms >= time_ms:
            found, high = stored.seq, middle
        else:
            low = stored.seq
    return found


async def _last_seq(bus: Bus, stream: str) -> int:
    info = await bus.js_api(f"STREAM.INFO.{stream}")
    return int(info["state"]["last_seq"])


def _state_of(session: str) -> str:
    return subjects.state_stream(home(session))


def _subject_of(record: Record) -> str:
    return subjects.record(record.pool, record.tenant, record.session)


def _result_of(result: TaskResult) -> str:
    return subjects.stored_result(result.tenant, result.session, result.task)


def _entry(stored: Stored) -> Entry:
    tenant, session, task = subjects.parse_task(stored.subject)
    try:
        klass = asked_class(stored.headers.get(headers.CLASS))
    except InvalidMessage:
        klass = None
    return Entry(
        tenant=tenant,
        session=session,
        task=task,
        seq=stored.seq,
        accepted_ms=stored.time_ms,
        klass=klass,
        body=stored.data,
        replay_of=stored.headers.get(headers.REPLAY_OF, ""),
        trace=read_context(stored.headers),
    )


def _known(stored: Stored) -> Known:
    """Read a record; it must be of the session that its subject names, since permissions go by subjects."""
    record = messages.decode(stored.data, Record)
    if stored.subject != _subject_of(record):
        raise InvalidMessage(f"{stored.subject} holds a record of {_subject_of(record)}")
    return Known(record, stored.seq, stored.time_ms)
