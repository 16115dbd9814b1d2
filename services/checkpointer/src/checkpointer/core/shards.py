"""Which shard takes the next pack: one with a leader and with room, so that a save never waits for an election. Pure."""

from __future__ import annotations

from shared.ids import SHARDS

DOWN_S = 3.0
"""So long a shard that did not answer is left alone; an election takes 4 to 9 s, asking costs a save half a second."""
FULL_S = 30.0
"""So long one that is full is left alone."""
SURE_S = 1.0
"""Whoever answered so long ago is believed to answer still."""


class Shards:
    """What is known of the shards. Times are a monotonic clock's, seconds."""

    def __init__(self, first: int) -> None:
        """Begin with any of them, believing all to be up."""
        self._next = first
        self._avoided_until = [float("-inf")] * SHARDS
        self._answered_at = [float("-inf")] * SHARDS
        self._full_until = [float("-inf")] * SHARDS

    def choose(self, now: float) -> int:
        """Return the next shard in turn that is not to be left alone; any, where all are."""
        turns = [(self._next + step) % SHARDS for step in range(SHARDS)]
        good = [shard for shard in turns if self._avoided_until[shard] <= now]
        # Where all are down, the one that was given up longest ago is the likeliest to be back.
        chosen = good[0] if good else min(turns, key=lambda shard: self._avoided_until[shard])
        self._next = (chosen + 1) % SHARDS
        return chosen

    def is_sure(self, shard: int, now: float) -> bool:
        """Return whether it answered a moment ago."""
        return now - self._answered_at[shard] < SURE_S

    def answered(self, shard: int, now: float) -> None:
        """It answered."""
        self._answered_at[shard] = now
        self._avoided_until[shard] = self._full_until[shard] = float("-inf")

    def failed(self, shard: int, now: float) -> None:
        """It did not answer, or has no leader."""
        self._answered_at[shard] = float("-inf")
        self._avoided_until[shard] = now + DOWN_S

    def full(self, shard: int, now: float) -> bool:
        """It has no room; return whether that is so of all."""
        self._avoided_until[shard] = self._full_until[shard] = now + FULL_S
        return all(until > now for until in self._full_until)
