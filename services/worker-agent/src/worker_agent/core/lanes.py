"""Which lanes a free worker asks, and in what order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shared.ids import SHARDS
from shared.subjects import CLASSES, CLIENT_CLASSES, most_urgent

Lane = tuple[str, int]
"""(class, queue shard)."""


def order(hints: Sequence[Lane], *, draw: float, batch_first_every: int) -> tuple[Lane, ...]:
    """Return the lanes known to hold messages in the order to ask them.

    Args:
        hints: lanes that were said to hold messages; anything else is ignored.
        draw: uniform in [0, 1): with probability 1 / `batch_first_every` batch comes first, so it never starves.
        batch_first_every: the pool's k.
    """
    classes = CLASSES if draw * batch_first_every >= 1 else ("batch", *CLASSES[:-1])
    known = [lane for lane in hints if lane[0] in CLASSES and 0 <= lane[1] < SHARDS]
    return tuple(sorted(set(known), key=lambda lane: (classes.index(lane[0]), known.index(lane))))


def lane_for(asked: Iterable[str | None], own: str) -> str:
    """Return the lane in which a session waits whose inbox asks for these classes.

    Args:
        asked: what entries say; None, or no class that clients may ask for: the session's own.
        own: the session's own class.
    """
    first, *others = (klass if klass in CLIENT_CLASSES else own for klass in asked)
    return most_urgent(first, *others)
