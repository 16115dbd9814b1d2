"""Puts a snapshot's packs in order: what is still needed of small and of mostly dead ones goes into new ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from checkpointer.adapters.engine.nodes import ChunkReader, cut_chunk
from checkpointer.adapters.engine.threads import Bridge
from checkpointer.core.bounds import FRAME_RAW_BYTES
from checkpointer.core.entries import Entry, Id
from checkpointer.core.frames import Codec, Frame
from checkpointer.core.index import Index
from checkpointer.core.merge import choose_rewritten, group_by_pack, live_ids


class Merged(NamedTuple):
    """What is to be done."""

    rewritten: set[int]
    """Packs of the parent, by their numbers in its index, that the new snapshot does not need."""
    live: dict[int, set[Id]]
    """What of each pack is needed."""


class Merger:
    """Merges for one save."""

    def __init__(self, parent: Index, new_lists: dict[Id, bytes], bridge: Bridge) -> None:
        """Keep what is needed.

        Args:
            parent: where the parent snapshot's chunks lie.
            new_lists: list nodes that this save made.
            bridge: reads.
        """
        self._index = parent
        self._new_lists = new_lists
        self._bridge = bridge
        self._chunks = ChunkReader(parent, bridge)

    def look(self, entries: Iterable[Entry]) -> Merged:
        """Return which packs to write anew.

        Args:
            entries: all of the new tree, the root's too.

        Raises:
            ServiceError: a list node could not be read.
        """
        live = group_by_pack(live_ids(entries, self._list), self._index)
        chosen = choose_rewritten(self._index, live, self._bridge.store.pack_bytes)
        return Merged(chosen, live)

    def _list(self, one: Id) -> bytes | memoryview:
        new = self._new_lists.get(one)
        return self._chunks.chunk(one, "a list of chunks") if new is None else new

    def frames(self, merged: Merged, codec: Codec) -> Iterator[Frame]:
        """Yield what is still needed of the packs that are given up, in new frames.

        Raises:
            Damaged: a chunk there is not what was written: it stays where it is, and this save fails.
            ServiceError: the store's.
        """
        for pack in sorted(merged.rewritten):
            if merged.live[pack]:
                yield from self._rewrite(pack, merged.live[pack], codec)

    def _rewrite(self, pack: int, live: set[Id], codec: Codec) -> Iterator[Frame]:
        index, key = self._index, self._index.packs[pack].key
        data = memoryview(self._bridge.get(key))
        places = sorted((place, one) for one in live if (place := index.find(one)) is not None)
        chunks: list[bytes | memoryview] = []
        ids: list[Id] = []
        kind, opened, raw, raw_bytes = 0, -1, memoryview(b""), 0
        for place, one in places:
            if place.frame != opened:
                info, opened = index.frame(place.frame), place.frame
                stored = data[info.offset : info.offset + info.stored_bytes]
                raw = memoryview(codec.unpack(stored, info.raw_bytes, f"{key} at {info.offset}"))
                if chunks and info.kind != kind:
                    yield codec.seal(kind, chunks, ids)
                    chunks, ids, raw_bytes = [], [], 0
                kind = info.kind
            if chunks and raw_bytes + place.length > FRAME_RAW_BYTES:
                yield codec.seal(kind, chunks, ids)
                chunks, ids, raw_bytes = [], [], 0
            chunks.append(cut_chunk(raw, place, one, key))
            ids.append(one)
            raw_bytes += place.length
        if chunks:
            yield codec.seal(kind, chunks, ids)
