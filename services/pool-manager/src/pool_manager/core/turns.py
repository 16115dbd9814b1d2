"""Whose turn it is among the classes of a pool: the most urgent first, and `batch` never less than its share."""

from __future__ import annotations

from shared.classes import CLASSES
from shared.ids import SHARDS

Lane = tuple[str, int]
"""(class, queue shard)"""

BATCH_FIRST = ("recovery", "batch", "interactive")
"""Sessions that lost their worker go before everything, also when it is the turn of `batch`."""
AHEAD_MAX = 3
"""Turns of `batch` that are remembered as taken in advance: several workers may take the same turn."""
GENEROUS = 0.9
"""`batch` pays a little less for a start than its share costs, so that the share holds wherever one begins to count."""


class Turns:
    """Counts starts: as long as both wait, at least one in `every` is of `batch`.

    A count, not a die: the share holds over any few dozen starts, and every pool-manager counts the same claims.
    """

    def __init__(self, every: int) -> None:
        """Give `batch` one start in `every`, at least 2."""
        self._others = every - 1
        self._owed = 0.0
        """Starts of others that `batch` is to be paid for; below 0: it had its turns in advance."""
        self._rotation = 0

    def started(self, klass: str) -> None:
        """A session of this class was claimed."""
        if klass == "batch":
            self._owed = max(self._owed - self._others * GENEROUS, -self._others * AHEAD_MAX)
        else:
            # What piles up while no batch waits would go before everything later.
            self._owed = min(self._owed + 1, self._others)

    @property
    def is_batch_due(self) -> bool:
        """Whether `batch` comes before `interactive` now."""
        return self._owed > 0

    def classes(self) -> tuple[str, ...]:
        """Return all classes, the one whose turn it is first."""
        return BATCH_FIRST if self.is_batch_due else CLASSES

    def lanes(self) -> tuple[Lane, ...]:
        """Return all lanes in the order in which the next free worker is to ask them."""
        self._rotation += 1
        shards = [(self._rotation + step) % SHARDS for step in range(SHARDS)]
        return tuple((klass, shard) for klass in self.classes() for shard in shards)
