"""Which lanes a free worker asks, and in what order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shared.classes import CLASSES, CLIENT_CLASSES, most_urgent
from shared.ids import SHARDS

Lane = tuple[str, int]
"""(class, queue shard)."""


def most_urgent_lane(rung: Sequence[Lane]) -> Lane:
    """Return the lane to ask of those whose bells rang; of the same class the first."""
    return min(rung, key=lambda lane: CLASSES.index(lane[0]))


def known_lanes(hints: Sequence[Lane]) -> tuple[Lane, ...]:
    """Return those lanes that there are, in their order: a hint may come from another version."""
    return tuple(lane for lane in hints if lane[0] in CLASSES and 0 <= lane[1] < SHARDS)


def lane_for(asked: Iterable[str | None], own: str) -> str:
    """Return the lane in which a session waits whose inbox asks for these classes.

    Args:
        asked: what entries say; None, or no class that clients may ask for: the session's own.
        own: the session's own class.
    """
    first, *others = (klass if klass in CLIENT_CLASSES else own for klass in asked)
    return most_urgent(first, *others)
