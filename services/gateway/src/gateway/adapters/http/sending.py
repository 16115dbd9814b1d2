"""A stream of events as the answer to a request."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

from litestar import Response

from gateway.adapters.http.guard import ADMITTED
from gateway.adapters.http.streams import Reader, Streams
from gateway.adapters.http.told import ALIVE, WHY, as_server_event
from shared.rest import StreamEvent

EVENT_STREAM = "text/event-stream"


class EventStream(Response[bytes]):
    """Server-sent events until the last one."""

    def __init__(
        self,
        streams: Streams,
        events: AsyncGenerator[StreamEvent, None],
        place: AsyncExitStack,
        fields: dict[str, str] | None = None,
    ) -> None:
        """Send `events`, behind `fields` beside the usual headers; `place` is given back in the end."""
        super().__init__(b"", media_type=EVENT_STREAM)
        self._parts = (streams, events, place)
        self._fields = fields or {}

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """Return the application that answers."""
        return self._answer

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        streams, events, place = self._parts

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        async def say(pieces: list[bytes]) -> None:
            body = b"".join(pieces) or ALIVE
            await send({"type": "http.response.body", "body": body, "more_body": True})

        async with place:
            fields = {
                "content-type": f"{EVENT_STREAM}; charset=utf-8",
                "cache-control": "no-store",
                "x-accel-buffering": "no",
                **self._fields,
            }
            wire = [(name.encode(), value.encode()) for name, value in fields.items()]
            await send({"type": "http.response.start", "status": 200, "headers": wire})
            await say([])
            withdrawn = scope["state"][ADMITTED].withdrawn
            reader = Reader(write=as_server_event, send=say, gone=gone(), withdrawn=withdrawn)
            why = WHY[await streams.pump(events, reader)]
            last = f": {why}\n\n".encode() if why else b""  # a comment, for people
            await send({"type": "http.response.body", "body": last, "more_body": False})
