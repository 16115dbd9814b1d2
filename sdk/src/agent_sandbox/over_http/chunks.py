"""Chunks of objects through gateways: each a request of its own, so that any gateway may die between two of them."""

from __future__ import annotations

from agent_sandbox.over_http.calls import Call, Calls
from shared.errors import NotFound


class HttpChunks:
    """See `shared.objects.Chunks`."""

    def __init__(self, calls: Calls) -> None:
        """Use a client's connections."""
        self._calls = calls

    async def put(self, object_id: str, number: int, data: bytes, *, within_s: float) -> None:
        """Store a chunk; storing it again does nothing.

        Raises:
            LimitExceeded: the object store is full.
            Unavailable: it could not be stored in time.
            OutcomeUnknown: likewise, and it may have been stored.
        """
        call = Call(
            method="PUT",
            path=f"/v1/objects/{object_id}/{number}",
            headers={"content-type": "application/octet-stream"},
            body=data,
            changes=True,
            answers="nothing",
        )
        await self._calls.ask(call, within_s=within_s)

    async def get(self, object_id: str, number: int, *, within_s: float) -> bytes | None:
        """Return a chunk; None: it is not there (yet).

        Raises:
            Unavailable: no gateway can say.
            OutcomeUnknown: no answer in time.
        """
        path = f"/v1/objects/{object_id}/{number}"
        call = Call(method="GET", path=path, answers="bytes")
        try:
            return (await self._calls.ask(call, within_s=within_s)).content
        except NotFound:
            return None
