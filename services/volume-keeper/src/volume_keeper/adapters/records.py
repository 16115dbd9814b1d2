"""Session records over the state streams."""

from __future__ import annotations

from shared import messages, subjects
from shared.bus import Bus
from shared.ids import home
from shared.record import Record

ANSWER_S = 0.5


class StreamRecords:
    """Implements `ports.Records`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def read(self, tenant: str, session: str) -> Record | None:
        """Return a session's record; None: there is none."""
        stored = await self._bus.read_last(
            subjects.state_stream(home(session)),
            subjects.any_pool_record(tenant, session),
            timeout_s=ANSWER_S,
        )
        return None if stored is None else messages.decode(stored.data, Record)
