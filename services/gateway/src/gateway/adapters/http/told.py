"""Events of a task as streams write them: the same words in server-sent events and over WebSockets."""

from __future__ import annotations

import msgspec

from gateway.adapters.http.streams import End
from shared.rest import StreamEvent

ALIVE = b": alive\n\n"
"""A comment: whoever reads events does not see it, whoever keeps connections does."""
WHY: dict[End, str] = {
    "done": "",
    "gone": "its reader is gone",
    "stalled": "its reader takes nothing",
    "leaving": "this gateway leaves: go on at another",
    "withdrawn": "the token was withdrawn",
    "broken": "it breaks off here: go on behind the last event",
}
_encoder = msgspec.json.Encoder()


def as_text(event: StreamEvent) -> bytes:
    """Return an event as JSON."""
    return _encoder.encode(event)


def as_server_event(event: StreamEvent) -> bytes:
    """Return an event as the lines of a server-sent one."""
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (
        event.id.encode(),
        event.event.encode(),
        _encoder.encode(event),
    )
