"""What of a task's stored output fits an answer, and where in it a message stands."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shared import headers
from shared.views import OutputMark, OutputMessage

ANSWER_BYTES_MAX = 512 * 1024
"""Size of an answer as JSON, one message more at the most."""
_SERVERS = "Nats-"
_AROUND = 64
"""Bytes of JSON around a message, and of an estimate that need not be exact."""


class StoredOutput(msgspec.Struct, frozen=True):
    """One message of a task, as it was said."""

    seq: int
    at_ms: int
    headers: Mapping[str, str]
    data: bytes


class Page:
    """Fills one answer."""

    def __init__(self, after: int, limit: int | None = None) -> None:
        """Hold nothing of what follows the sequence `after`; so many messages fill it, or so many bytes."""
        self._limit = limit
        self.messages: list[OutputMessage] = []
        self.next = after
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be added."""
        many = self._limit is not None and len(self.messages) >= self._limit
        return many or self._bytes >= ANSWER_BYTES_MAX

    def add(self, stored: StoredOutput) -> None:
        """Add a message, without what the servers wrote on it."""
        said = {k: v for k, v in stored.headers.items() if not k.startswith(_SERVERS)}
        self.messages.append(OutputMessage(headers=said, at_ms=stored.at_ms, data=stored.data))
        self.next = stored.seq
        self._bytes += _AROUND + len(stored.data) * 4 // 3
        self._bytes += sum(len(name) + len(value) + 6 for name, value in said.items())


def mark_of(fields: Mapping[str, str]) -> OutputMark | None:
    """Return which message this is; None: its headers do not say."""
    try:
        return OutputMark(
            int(fields[headers.EPOCH]), int(fields[headers.ATTEMPT]), int(fields[headers.NUMBER])
        )
    except (KeyError, ValueError):
        return None
