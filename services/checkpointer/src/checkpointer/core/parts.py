"""How a pack is cut into messages, and which of them hold a range of it. Pure."""

from __future__ import annotations

from shared.limits import OBJECT_CHUNK_BYTES_MAX

PART_BYTES = OBJECT_CHUNK_BYTES_MAX
HEAD = "head"
"""The part that tells the pack's size."""


def cut(data: bytes) -> list[memoryview]:
    """Return the parts of a pack, in order."""
    view = memoryview(data)
    return [view[at : at + PART_BYTES] for at in range(0, len(view), PART_BYTES)]


def part_size(number: int, size_bytes: int) -> int:
    """Return how many bytes a part has in a pack of that size."""
    return max(0, min(PART_BYTES, size_bytes - number * PART_BYTES))


def parts_of(start: int, end: int) -> range:
    """Return the numbers of the parts that hold the bytes from `start` to before `end`."""
    return range(start // PART_BYTES, -(-end // PART_BYTES)) if end > start else range(0)
