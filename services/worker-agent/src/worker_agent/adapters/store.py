"""The truth as the worker sees it: records, results and inboxes over the state and inbox streams."""

from __future__ import annotations

from shared import messages, subjects
from shared.bus import Bus, Stored, Write
from shared.ids import home
from shared.letters import DeadLetter, seal
from shared.messages import TaskResult
from shared.record import Record
from worker_agent.adapters.queue import read_headers
from worker_agent.core.interrupt import server_ahead_ms
from worker_agent.ports import Entry

ANSWER_S = 1.0
"""Longest wait for one answer; then the outcome is unknown and the record is read."""
BURY_S = 5.0
"""For one dead letter; whoever buries it tries again."""


class SessionStore:
    """Implements `ports.Truth`."""

    def __init__(self, bus: Bus) -> None:
        """Use the worker's connection."""
        self._bus = bus

    async def create(self, record: Record, payload: bytes) -> int:
        """Create record and payload in one batch; return the record's sequence."""
        where = (record.pool, record.tenant, record.session)
        return await self._bus.batch(
            [
                Write(subjects.payload(*where), payload, expected_seq=0),
                Write(subjects.record(*where), messages.encode(record), expected_seq=0),
            ],
            timeout_s=ANSWER_S,
        )

    async def read(self, tenant: str, session: str, pool: str) -> tuple[Record, int] | None:
        """Return the record and its sequence."""
        stored = await self._last(session, subjects.record(pool, tenant, session))
        return None if stored is None else (messages.decode(stored.data, Record), stored.seq)

    async def write(self, record: Record, expected_seq: int) -> int:
        """Write the record by compare-and-set; return its new sequence."""
        return await self._bus.compare_and_set(
            subjects.record(record.pool, record.tenant, record.session),
            messages.encode(record),
            expected_seq=expected_seq,
            timeout_s=ANSWER_S,
        )

    async def commit(self, record: Record, expected_seq: int, result: TaskResult) -> int:
        """Write result and record in one batch, the result only if there is none."""
        return await self._bus.batch(
            [
                Write(
                    subjects.stored_result(record.tenant, record.session, result.task),
                    messages.encode(result),
                    expected_seq=0,
                ),
                Write(
                    subjects.record(record.pool, record.tenant, record.session),
                    messages.encode(record),
                    expected_seq=expected_seq,
                ),
            ],
            timeout_s=ANSWER_S,
        )

    async def payload(self, record: Record) -> bytes | None:
        """Return the first task's body."""
        stored = await self._last(
            record.session, subjects.payload(record.pool, record.tenant, record.session)
        )
        return None if stored is None else stored.data

    async def result_exists(self, record: Record, task: str) -> bool:
        """Return whether the task has its result."""
        subject = subjects.stored_result(record.tenant, record.session, task)
        return await self._last(record.session, subject) is not None

    async def next_entry(self, record: Record, after_seq: int) -> Entry | None:
        """Return the inbox entry that follows stream sequence `after_seq`."""
        stored = await self._bus.read_next(
            subjects.inbox_stream(home(record.session)),
            subjects.inbox(record.tenant, record.session),
            after_seq=after_seq,
            timeout_s=ANSWER_S,
        )
        if stored is None:
            return None
        _, _, task = subjects.parse_task(stored.subject)
        return Entry(
            task=task,
            seq=stored.seq,
            body=stored.data,
            accepted_ms=stored.time_ms,
            headers=read_headers(stored.headers, record.tenant),
        )

    async def server_ahead_ms(self, record: Record) -> int:
        """Return by how much the servers' clock is ahead of this machine's, as the record's last write shows."""
        subject = subjects.record(record.pool, record.tenant, record.session)
        stored = await self._last(record.session, subject)
        if stored is None:
            return 0
        written = messages.decode(stored.data, Record)
        return server_ahead_ms(written, stored.time_ms, owner=record.owner)

    async def bury(self, letter: DeadLetter, body: bytes) -> None:
        """Keep a message that cannot become a task as a dead letter; again for the same task, it is kept once."""
        sealed = seal(letter, body)
        await self._bus.publish_acked(
            subjects.dead_letter(letter.tenant, letter.pool),
            sealed.body,
            message_id=sealed.message_id,
            headers=sealed.headers,
            deadline_s=BURY_S,
        )

    async def _last(self, session: str, subject: str) -> Stored | None:
        return await self._bus.read_last(
            subjects.state_stream(home(session)), subject, timeout_s=ANSWER_S
        )
