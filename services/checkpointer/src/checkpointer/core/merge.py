"""When a snapshot's packs are put in order: many checkpoints leave many small packs, and large ones of which little is
still needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from checkpointer.core.content import expand
from checkpointer.core.entries import INLINE, Entry, Id
from checkpointer.core.index import Index

LOOSE_PACKS_MAX: Final = 32
"""Packs that no index object covers: each costs a request before a restore can begin."""
SMALL: Final = 4
"""A pack below this part of the store's pack size is small."""
LIVE_MIN: Final = 0.5
"""Share of a pack's chunks, by raw bytes, below which it is written anew."""
REWRITTEN_BYTES_MAX: Final = 64 * 1024 * 1024
"""Packs that one save writes anew, by size: the rest waits for the next time."""

Lists = Callable[[Id], bytes | memoryview]
"""Returns a list node, its hash checked."""


def is_due(packs: int, covered: int) -> bool:
    """Return whether it is time.

    Args:
        packs: of the snapshot to be.
        covered: of them, by the index object that there is.
    """
    return packs - covered > LOOSE_PACKS_MAX


def live_ids(entries: Iterable[Entry], lists: Lists) -> Iterator[Id]:
    """Yield all ids that these entries need, list nodes and what they name included."""
    for entry in entries:
        if entry.form == INLINE:
            continue
        yield from entry.ids
        if entry.form > 1:
            seen: list[Id] = []

            def follow(one: Id, seen: list[Id] = seen) -> bytes | memoryview:
                seen.append(one)
                return lists(one)

            for one, _ in expand(entry, follow, "a list"):
                yield one
            yield from seen


def group_by_pack(ids: Iterable[Id], index: Index) -> dict[int, set[Id]]:
    """Return which of these chunks lie in which pack; those that are new lie in none."""
    packs: dict[int, set[Id]] = {number: set() for number in range(len(index.packs))}
    for one in ids:
        place = index.find(one)
        if place is not None:
            packs[index.frame(place.frame).pack].add(one)
    return packs


def choose_rewritten(index: Index, live: Mapping[int, set[Id]], pack_bytes: int) -> set[int]:
    """Return the packs to be written anew, or dropped where nothing of them is needed."""
    raw_bytes = dict.fromkeys(range(len(index.packs)), 0)
    live_bytes = dict(raw_bytes)
    for one, place in index.places():
        pack = index.frame(place.frame).pack
        raw_bytes[pack] += place.length
        if one in live[pack]:
            live_bytes[pack] += place.length
    chosen: set[int] = set()
    left_bytes = REWRITTEN_BYTES_MAX
    for number in sorted(raw_bytes, key=lambda pack: index.packs[pack].size):
        size = index.packs[number].size
        if not live[number]:
            chosen.add(number)
        elif size <= left_bytes and (
            size < pack_bytes // SMALL or live_bytes[number] < LIVE_MIN * raw_bytes[number]
        ):
            chosen.add(number)
            left_bytes -= size
    return chosen
