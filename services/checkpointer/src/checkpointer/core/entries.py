"""A directory's entries and its node: the encoded list of them, whose id is the directory's content.

A tree is a Merkle tree: a directory's entry names its node by the hash of the node's bytes, the node names files by the
hashes of their chunks. Equal trees have equal root ids, whoever saved them: so nothing in an entry depends on the machine
(inode, device, the user id that happens to own the workspace).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from checkpointer.core.bounds import (
    FILE_BYTES_MAX,
    ID_BYTES,
    LIST_CHUNKS,
    LIST_LEVELS_MAX,
    NAME_BYTES_MAX,
    NODE_BYTES_MAX,
    NODE_ENTRIES_MAX,
    XATTRS_BYTES_MAX,
)
from shared.errors import Damaged, LimitExceeded

FILE: Final = 1
DIRECTORY: Final = 2
SYMLINK: Final = 3
FIFO: Final = 4
SOCKET: Final = 5
KINDS: Final = {
    FILE: "file",
    DIRECTORY: "directory",
    SYMLINK: "symlink",
    FIFO: "fifo",
    SOCKET: "socket",
}

INLINE: Final = 0
"""`Entry.form`: the content stands in the entry (short files, symlink targets)."""
CHUNKS: Final = 1
"""`Entry.form`: the content is made of the chunks named. `CHUNKS + n`: they are named by list nodes of n levels."""

INLINE_BYTES_MAX: Final = 64
"""A file up to this size stands in its directory's node: an id and its place in the index would be larger."""
ZERO_ID: Final = bytes(ID_BYTES)
"""Stands for a run of zero bytes, a hole or not: nothing is stored of it, and it is a hole after a restore."""

WHOLE: Final = 0
"""`Entry.cut`: not cut, one chunk or none."""
BY_CONTENT: Final = 1
"""`Entry.cut`: where the content says (FastCDC)."""
CHANGING: Final = 2
"""`Entry.cut`: where the content says, and the file was seen to change in place: it is `FIXED` next time."""
FIXED: Final = 3
"""`Entry.cut`: every 16 KiB."""

LENGTH_BYTES: Final = 8
MODE_KEPT: Final = 0o1777
"""Of a mode, what is restored; never that a program runs with its owner's or group's rights."""
SHOWN_CHARACTERS_MAX: Final = 240

Id = bytes
Name = Annotated[bytes, Meta(min_length=1, max_length=NAME_BYTES_MAX)]
OwnerNumber = Annotated[int, Meta(ge=0, le=1 << 32)]


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One name in a directory. The order of the fields is the format."""

    name: Annotated[bytes, Meta(max_length=NAME_BYTES_MAX)]
    """Raw bytes. Empty for the root of a tree alone."""
    kind: Annotated[int, Meta(ge=FILE, le=SOCKET)]
    """`FILE`, `DIRECTORY`, `SYMLINK`, `FIFO` or `SOCKET`. Devices are not saved."""
    mode: Annotated[int, Meta(ge=0, le=0o7777)]
    """Permission bits, without the type."""
    uid: OwnerNumber
    """0: the owner of the workspace's root, whatever its number is there. Else the number + 1."""
    gid: OwnerNumber
    """0: the group of the workspace's root. Else the number + 1."""
    mtime_ns: int
    """Modification time, nanoseconds since the epoch."""
    size: Annotated[int, Meta(ge=0, le=FILE_BYTES_MAX)] = 0
    """File: bytes. Symlink: bytes of its target. Directory: bytes of its node. Else 0."""
    content: bytes = b""
    """The bytes themselves (`INLINE`), or ids of `ID_BYTES` each."""
    lengths: bytes = b""
    """Bytes behind each id of `content`, little-endian, 8 bytes each. Empty for one id: it stands for `size` bytes."""
    form: Annotated[int, Meta(ge=INLINE, le=CHUNKS + LIST_LEVELS_MAX)] = INLINE
    cut: Annotated[int, Meta(ge=WHOLE, le=FIXED)] = WHOLE
    """How a file was cut: it is cut the same way next time."""
    link_group: Annotated[int, Meta(ge=0)] = 0
    """Entries of one tree with the same number (not 0) are one file with several names. Derived from the first path of
    the group, never from the inode."""
    xattrs: tuple[tuple[bytes, bytes], ...] = ()
    """Extended attributes, sorted by name."""

    @property
    def ids(self) -> list[Id]:
        """The ids that `content` names; none for `INLINE`."""
        if self.form == INLINE:
            return []
        content = self.content
        return [content[at : at + ID_BYTES] for at in range(0, len(content), ID_BYTES)]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Entry]).decode


def encode_node(entries: Iterable[Entry]) -> bytes:
    """Return the node of these entries. Equal entries give equal bytes.

    Args:
        entries: sorted by name, each name once.
    """
    return _encode(list(entries))


def decode_node(data: bytes | memoryview, where: str) -> list[Entry]:
    """Return a node's entries, checked: nothing that could leave the directory, shadow a name or lie about a size.

    Args:
        data: the node, its hash already checked.
        where: the directory, for the error's text.

    Raises:
        Damaged: it is no node, or one that no honest writer makes.
        LimitExceeded: more bytes or entries than a node may have.
    """
    if len(data) > NODE_BYTES_MAX:
        raise LimitExceeded(
            f"{where}: its node has {len(data)} bytes, at most {NODE_BYTES_MAX} are read"
        )
    check_count(data, where)
    try:
        entries = _decode(data)
    except msgspec.MsgspecError as exc:
        raise Damaged(f"{where}: its node can not be read: {exc}") from exc
    names = [entry.name for entry in entries]
    distinct = set(names)
    joined = b"".join(names)
    if b"/" in joined or b"\0" in joined or not distinct.isdisjoint((b"", b".", b"..")):
        bad = next(name for name in names if is_bad_name(name))
        raise Damaged(f"{where}: {bad[:64]!r} is no name of a file")
    if sorted(distinct) != names:
        raise Damaged(f"{where}: its names are not sorted, or one stands there twice")
    for entry in entries:
        if entry.form != CHUNKS or len(entry.content) != ID_BYTES or entry.lengths or entry.xattrs:
            check_content(entry, where)
        elif entry.kind > DIRECTORY:
            raise Damaged(f"{where}/{show(entry.name)}: a {KINDS[entry.kind]} has no chunks")
    return entries


def check_count(data: bytes | memoryview, where: str) -> None:
    """Refuse a node that says that it has more entries than may be.

    Raises:
        LimitExceeded: it does.
    """
    head = bytes(data[:5])
    if head[:1] == b"\xdd" and int.from_bytes(head[1:5], "big") > NODE_ENTRIES_MAX:
        count = int.from_bytes(head[1:5], "big")
        raise LimitExceeded(f"{where}: {count} entries, at most {NODE_ENTRIES_MAX} are read")


def is_bad_name(name: bytes) -> bool:
    """Return whether a name in a node would mean another place, or none."""
    return name in {b"", b".", b".."} or b"/" in name or b"\0" in name


def check_content(entry: Entry, where: str) -> None:
    """Check an entry's content against its kind and size.

    Raises:
        Damaged: they don't fit.
    """
    place = f"{where}/{show(entry.name)}"
    if sum(len(key) + len(value) for key, value in entry.xattrs) > XATTRS_BYTES_MAX:
        raise Damaged(f"{place}: more than {XATTRS_BYTES_MAX} bytes of extended attributes")
    if entry.form == INLINE:
        if entry.kind == DIRECTORY or entry.lengths:
            raise Damaged(f"{place}: a directory's node can not stand in its entry")
        if entry.kind in {FILE, SYMLINK} and len(entry.content) != entry.size:
            raise Damaged(f"{place}: {len(entry.content)} bytes where {entry.size} are promised")
        if entry.kind in {FIFO, SOCKET} and entry.content:
            raise Damaged(f"{place}: a {KINDS[entry.kind]} has no content")
        return
    if entry.kind not in {FILE, DIRECTORY}:
        raise Damaged(f"{place}: a {KINDS[entry.kind]} has no chunks")
    count, rest = divmod(len(entry.content), ID_BYTES)
    if rest or not 0 < count <= LIST_CHUNKS:
        raise Damaged(f"{place}: {len(entry.content)} bytes of ids")
    if not entry.lengths and count == 1:
        return
    if len(entry.lengths) != count * LENGTH_BYTES:
        raise Damaged(f"{place}: {count} ids, and {len(entry.lengths)} bytes of their lengths")
    if sum(unpack_lengths(entry.lengths)) != entry.size:
        raise Damaged(f"{place}: its chunks do not add up to its {entry.size} bytes")


def pack_lengths(lengths: Sequence[int]) -> bytes:
    """Return lengths in the form of `Entry.lengths`."""
    return b"".join([length.to_bytes(LENGTH_BYTES, "little") for length in lengths])


def unpack_lengths(data: bytes | memoryview) -> list[int]:
    """Return what `pack_lengths` was given."""
    return [
        int.from_bytes(data[at : at + LENGTH_BYTES], "little")
        for at in range(0, len(data), LENGTH_BYTES)
    ]


def show(name: bytes) -> str:
    """Return a name, or a path, for people: what is no UTF-8 or not printable is escaped, what is long is cut."""
    text = name.decode("utf-8", "backslashreplace")
    if not text.isprintable():
        shown = [one if one.isprintable() else ascii(one)[1:-1] for one in text]
        text = "".join(shown)
    if len(text) > SHOWN_CHARACTERS_MAX:
        half = SHOWN_CHARACTERS_MAX // 2
        text = f"{text[:half]}…{text[-half:]}"
    return text
