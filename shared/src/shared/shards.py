"""Which state shards elect their leader just now: said by the pool-managers while it lasts, heard by who makes ids.

A session's home follows from its id. One whose home has no leader waits for the election, 4 to 9 s; so whoever makes an
id draws again until its home has one. Only ids that were never published may be drawn again.
"""

from __future__ import annotations

from collections.abc import Callable

from shared.ids import SHARDS, home
from shared.messages import Message

SAID_EVERY_S = 0.3
BELIEVED_S = 1.0
"""So long a shard counts as down after it was said to be: three times may be missed."""
DRAWS_MAX = 64
"""Of three shards one is up: 64 draws miss it once in 10^11."""


class ShardsDown(Message, frozen=True, kw_only=True):
    """State shards whose leader does not answer."""

    down: tuple[int, ...]


class Homes:
    """The homes that new sessions should not get now. Pure: times are arguments (monotonic clock, seconds)."""

    def __init__(self) -> None:
        """Believe all to be up."""
        self._down_until = [float("-inf")] * SHARDS

    def heard(self, said: ShardsDown, now: float) -> None:
        """Take in what a pool-manager says."""
        for shard in said.down:
            if 0 <= shard < SHARDS:
                self._down_until[shard] = now + BELIEVED_S

    def down(self, now: float) -> frozenset[int]:
        """Return the shards to leave alone; none where all are down: then any must do."""
        found = frozenset(shard for shard in range(SHARDS) if self._down_until[shard] > now)
        return found if len(found) < SHARDS else frozenset()

    def draw(self, make: Callable[[], str], now: float) -> str:
        """Return an id that `make` made, if possible one whose home has a leader."""
        down = self.down(now)
        drawn = make()
        for _ in range(DRAWS_MAX):
            if home(drawn) not in down:
                break
            drawn = make()
        return drawn
