"""Where chunks lie: behind a bus, or behind something that speaks for one."""

from __future__ import annotations

from typing import Protocol

from shared import subjects
from shared.bus import Bus
from shared.bus.answers import is_status
from shared.errors import LimitExceeded, Unavailable
from shared.limits import OBJECT_STORE_BYTES_MAX
from shared.objects.window import ANSWER_S


class Chunks(Protocol):
    """One tenant's chunks."""

    async def put(self, object_id: str, number: int, data: bytes, *, within_s: float) -> None:
        """Store a chunk; storing it again does nothing.

        Raises:
            LimitExceeded: the object store is full; names the limit.
            Forbidden: the credential does not allow it.
            Unavailable: it could not be stored in time.
            OutcomeUnknown: likewise, and it may have been stored.
        """
        ...

    async def get(self, object_id: str, number: int, *, within_s: float) -> bytes | None:
        """Return a chunk as any server has it; None: that one has none.

        Raises:
            Unavailable: it can't be asked now.
            OutcomeUnknown: no answer in time.
        """
        ...


class BusChunks:
    """One tenant's chunks in the object streams."""

    def __init__(self, bus: Bus, tenant: str) -> None:
        """Use a connection whose user may read, or write, objects of the tenant."""
        self._bus = bus
        self._tenant = tenant

    async def put(self, object_id: str, number: int, data: bytes, *, within_s: float) -> None:
        """Store a chunk; see `Chunks`."""
        try:
            await self._bus.publish_acked(
                subjects.object_chunk(self._tenant, object_id, number),
                data,
                message_id=f"{object_id}:{number}",
                attempt_s=ANSWER_S,
                deadline_s=max(ANSWER_S, within_s),
            )
        except LimitExceeded as exc:
            # One message a subject: an earlier try was stored. What is wrong about it, the digest tells.
            if "per subject" not in str(exc):
                raise _store_full(exc) from exc

    async def get(self, object_id: str, number: int, *, within_s: float) -> bytes | None:
        """Return a chunk; see `Chunks`."""
        subject = subjects.read_chunk(self._tenant, object_id, number)
        answer = await self._bus.request(subject, timeout_s=within_s)
        match is_status(answer):
            case None:
                return answer.data
            case "404":
                return None
            case status:
                raise Unavailable(f"{subject}: status {status}")


def _store_full(exc: LimitExceeded) -> LimitExceeded:
    if "maximum bytes" not in str(exc):
        return exc
    return LimitExceeded(
        f"the object store is full ({OBJECT_STORE_BYTES_MAX} bytes for all tenants): {exc}"
    )
