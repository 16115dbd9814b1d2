"""What the edge's loops need from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Counts(Protocol):
    """What a relay has counted since its start."""

    @property
    def connections(self) -> int:
        """Clients that are here now."""
        ...

    @property
    def half_sent_bytes(self) -> int:
        """Bytes that are held now, of messages of which a part is here only."""
        ...

    @property
    def accepted(self) -> int:
        """Connections that were made."""
        ...

    @property
    def messages_refused(self) -> int:
        """Messages that were not let through."""
        ...

    @property
    def bytes_passed(self) -> Mapping[str, int]:
        """Bytes that were passed on, by direction."""
        ...

    @property
    def refused(self) -> Mapping[str, int]:
        """Connections that were turned away or cut, by reason."""
        ...
