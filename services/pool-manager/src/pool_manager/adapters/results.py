"""Results of a session over its state stream."""

from __future__ import annotations

from pool_manager.ports.results import Ended
from shared import messages, subjects
from shared.bus import Bus, Stored
from shared.ids import home
from shared.messages import TaskResult

BATCH = 16
"""Results in one answer of a server: each may hold some 300 KiB."""
READ_S = 0.5


class StreamResults:
    """Implements `ports.results.Results`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def ended(self, tenant: str, session: str, after_seq: int, limit: int) -> list[Ended]:
        """Return a session's results that were stored after `after_seq`, in order."""
        stream = subjects.state_stream(home(session))
        wanted = subjects.stored_result(tenant, session, "*")
        found: list[Ended] = []
        async for stored in self._bus.scan(
            stream, wanted, batch=min(BATCH, limit), after_seq=after_seq
        ):
            found.append(_ended(stored))
            if len(found) == limit:
                return found
        # A replica may lag behind: what a client was told already must not be missing.
        while len(found) < limit:
            after = found[-1].seq if found else after_seq
            last = await self._bus.read_next(stream, wanted, after_seq=after, timeout_s=READ_S)
            if last is None:
                break
            found.append(_ended(last))
        return found


def _ended(stored: Stored) -> Ended:
    return Ended(messages.decode(stored.data, TaskResult), stored.seq, stored.time_ms)
