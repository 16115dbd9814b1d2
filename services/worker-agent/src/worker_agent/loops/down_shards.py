"""Which state shards are left alone for now: a worker never waits for a shard."""

from __future__ import annotations

import time

from shared.ids import SHARDS, home


class DownShards:
    """State shards that did not answer lately: their sessions are given back at once."""

    def __init__(self, down_s: float) -> None:
        """Mark shards down for `down_s` seconds."""
        self._down_s = down_s
        self._until = [0.0] * SHARDS

    def mark(self, session: str) -> None:
        """The session's home did not answer."""
        self._until[home(session)] = time.monotonic() + self._down_s

    def is_down(self, session: str) -> bool:
        """Whether the session's home is left alone for now."""
        return time.monotonic() < self._until[home(session)]
