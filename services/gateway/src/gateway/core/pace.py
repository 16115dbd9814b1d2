"""How long a request's body may keep us waiting: a pause, and in all so long that a slow line still gets through."""

from __future__ import annotations

from typing import Final

import msgspec

PAUSE_S_MAX: Final = 10.0
"""Longest wait for the next piece of a body."""
GRACE_S: Final = 10.0
"""Time for any body, however small."""
BYTES_PER_S_MIN: Final = 4096
"""A body must come at least so fast, beyond its grace."""


class Pace(msgspec.Struct):
    """What was waited for one body, and what came of it. Our own work in between does not count."""

    pause_s_max: float = PAUSE_S_MAX
    grace_s: float = GRACE_S
    waited_s: float = 0.0
    received_bytes: int = 0

    def left_s(self) -> float:
        """Return how long the next piece may take; 0: the patience is at its end."""
        whole = self.grace_s + self.received_bytes / BYTES_PER_S_MIN - self.waited_s
        return max(0.0, min(self.pause_s_max, whole))

    def came(self, size: int, waited_s: float) -> None:
        """Note a piece that came after `waited_s` seconds of waiting."""
        self.received_bytes += size
        self.waited_s += waited_s
