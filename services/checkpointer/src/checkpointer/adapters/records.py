"""Session records over the state streams."""

from __future__ import annotations

from shared import messages, subjects
from shared.bus import Bus
from shared.ids import home
from shared.record import Record

ANSWER_S = 0.5


class StreamRecords:
    """Implements `ports.truth.RecordStore`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def read(self, tenant: str, session: str) -> Record | None:
        """Return a session's record; None: there is none."""
        return (await self.read_with_seq(tenant, session))[0]

    async def read_with_seq(self, tenant: str, session: str) -> tuple[Record | None, int]:
        """Return a session's record and its sequence, as the leader has it."""
        stored = await self._bus.read_last(
            subjects.state_stream(home(session)),
            subjects.any_pool_record(tenant, session),
            timeout_s=ANSWER_S,
        )
        if stored is None:
            return None, 0
        return messages.decode(stored.data, Record), stored.seq

    async def write(self, record: Record, expected_seq: int) -> int:
        """Write a record by compare-and-set; return its new sequence."""
        return await self._bus.compare_and_set(
            subjects.record(record.pool, record.tenant, record.session),
            messages.encode(record),
            expected_seq=expected_seq,
            timeout_s=ANSWER_S,
        )
