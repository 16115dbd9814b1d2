"""Whether this pool-manager hears what is said, and since when: silence before that proves nothing."""

from __future__ import annotations

LATE_S = 0.75
"""A process that stood still for longer was deaf meanwhile."""
STALE_S = 1.0
"""So long after it was deaf, what arrives may have waited in a buffer, and be over by now."""


class Hearing:
    """Pure: times are arguments (monotonic clock, seconds)."""

    def __init__(self, now: float) -> None:
        """Begin to hear now."""
        self.since = now
        """Since when nothing was missed."""
        self._deaf_at = float("-inf")
        self._ticked = now
        self._connected = True

    @property
    def connected(self) -> bool:
        """Whether there is a connection on which something could be heard."""
        return self._connected

    def cut(self) -> None:
        """The connection is gone."""
        self._connected = False

    def again(self, now: float) -> None:
        """There is a connection again, or the process goes on: events were missed."""
        self._connected = True
        self.since = self._deaf_at = self._ticked = now

    def tick(self, now: float) -> float:
        """Return for how long this process stood still, if so long that it missed something; else 0."""
        late_s, self._ticked = now - self._ticked, now
        return late_s if late_s > LATE_S else 0.0

    def is_stale(self, now: float) -> bool:
        """Return whether what arrives now may have been said long ago."""
        return now - self._deaf_at < STALE_S
