"""From a list of chunks to an entry's content, and back: more than `LIST_CHUNKS` ids go to list nodes.

A list node holds ids and the bytes behind each, in two columns. An entry of form `CHUNKS + n` names nodes of n levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from checkpointer.core.bounds import ID_BYTES, LIST_CHUNKS, LIST_LEVELS_MAX
from checkpointer.core.entries import (
    CHUNKS,
    INLINE,
    LENGTH_BYTES,
    ZERO_ID,
    Entry,
    Id,
    pack_lengths,
    unpack_lengths,
)
from shared.errors import Damaged, LimitExceeded


class Content(msgspec.Struct, frozen=True, gc=False):
    """What an entry says of its bytes."""

    size: int
    content: bytes
    lengths: bytes = b""
    form: int = INLINE
    cut: int = 0


class ListNode(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A run of ids. The order of the fields is the format."""

    ids: bytes
    lengths: bytes


Piece = tuple[Id, int]
"""A chunk's id and its bytes; `ZERO_ID` for zeros."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ListNode).decode


def describe(pieces: Sequence[Piece], cut: int, keep: Callable[[bytes], Id]) -> Content:
    """Return the content made of these chunks.

    Args:
        pieces: all of a file's chunks in order; at least one.
        cut: the rule that made them.
        keep: stores a list node and returns its id.

    Raises:
        LimitExceeded: more chunks than the format can name.
    """
    size = sum(length for _, length in pieces)
    level: Sequence[Piece] = pieces
    form = CHUNKS
    while len(level) > LIST_CHUNKS:
        if form == CHUNKS + LIST_LEVELS_MAX:
            raise LimitExceeded(f"{len(pieces)} chunks in one file, at most {LIST_CHUNKS**form}")
        level = [
            _keep_list(level[at : at + LIST_CHUNKS], keep)
            for at in range(0, len(level), LIST_CHUNKS)
        ]
        form += 1
    lengths = b"" if len(level) == 1 else pack_lengths([length for _, length in level])
    return Content(size, b"".join([one for one, _ in level]), lengths, form, cut)


def _keep_list(run: Sequence[Piece], keep: Callable[[bytes], Id]) -> Piece:
    """Store one list node; return what stands for it a level above."""
    node = ListNode(b"".join([one for one, _ in run]), pack_lengths([n for _, n in run]))
    return keep(_encode(node)), sum(length for _, length in run)


def pieces_of(entry: Entry) -> list[Piece]:
    """Return what an entry names itself: its chunks, or its list nodes of the highest level."""
    ids = entry.ids
    if len(ids) == 1 and not entry.lengths:
        return [(ids[0], entry.size)]
    return list(zip(ids, unpack_lengths(entry.lengths), strict=True))


def read_list(data: bytes | memoryview, promised: Piece, where: str) -> list[Piece]:
    """Return what a list node names.

    Args:
        data: the node, its hash already checked.
        promised: what stands for it a level above.
        where: the file, for the error's text.

    Raises:
        Damaged: it is no list node, or names another number of bytes than is promised.
    """
    if len(data) > LIST_CHUNKS * (ID_BYTES + LENGTH_BYTES) + 16:
        raise LimitExceeded(f"{where}: a list node of {len(data)} bytes")
    try:
        node = _decode(data)
    except msgspec.MsgspecError as exc:
        raise Damaged(f"{where}: a list node can not be read: {exc}") from exc
    count, rest = divmod(len(node.ids), ID_BYTES)
    if rest or not 0 < count <= LIST_CHUNKS or len(node.lengths) != count * LENGTH_BYTES:
        raise Damaged(f"{where}: a list node with {len(node.ids)} bytes of ids")
    lengths = unpack_lengths(node.lengths)
    if sum(lengths) != promised[1]:
        raise Damaged(f"{where}: a list node does not add up to its {promised[1]} bytes")
    ids = [node.ids[at : at + ID_BYTES] for at in range(0, len(node.ids), ID_BYTES)]
    return list(zip(ids, lengths, strict=True))


def expand(entry: Entry, fetch: Callable[[Id], bytes | memoryview], where: str) -> Iterator[Piece]:
    """Yield all chunks of an entry's content in order, list nodes followed.

    Args:
        entry: a file or a directory that is not `INLINE`.
        fetch: returns a list node's bytes, its hash checked.
        where: the file, for an error's text.

    Raises:
        Damaged: a list node is not what it should be.
    """
    return _expand(pieces_of(entry), entry.form - CHUNKS, fetch, where)


def _expand(
    level: list[Piece], depth: int, fetch: Callable[[Id], bytes | memoryview], where: str
) -> Iterator[Piece]:
    if not depth:
        yield from level
        return
    for run in level:
        if run[0] == ZERO_ID:
            yield run
        else:
            yield from _expand(read_list(fetch(run[0]), run, where), depth - 1, fetch, where)
