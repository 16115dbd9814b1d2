"""Times as the servers write them."""

from __future__ import annotations

from datetime import UTC, datetime


def time_ms_of(text: str) -> int:
    """Return a server's timestamp (RFC 3339, nanoseconds, UTC) as milliseconds since 1970.

    Raises:
        ValueError: it is none.
    """
    head, _, fraction = text.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(head).replace(tzinfo=UTC).timestamp())
    return seconds * 1000 + int((fraction + "000")[:3])
