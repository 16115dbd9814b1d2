"""Going through trees: what is in one, and how two differ. Whoever calls says how a directory's entries are fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from checkpointer.core.bounds import TREE_DEPTH_MAX, TREE_ENTRIES_MAX
from checkpointer.core.entries import DIRECTORY, FILE, Entry, show
from shared.errors import LimitExceeded

Fetch = Callable[[Entry, bytes], list[Entry]]
"""Returns the entries of a directory, given its entry and its path."""


class Directory(NamedTuple):
    """A directory of a tree."""

    path: bytes
    """From the root, without a slash at either end; the root's own is empty."""
    entry: Entry
    entries: list[Entry]


class Change(NamedTuple):
    """How one path differs between two trees."""

    path: bytes
    change: Literal["added", "changed", "removed"]
    kind: int
    """`Entry.kind` in the newer tree, or of what was removed."""
    size_before: int
    size_after: int


def join(path: bytes, name: bytes) -> bytes:
    """Return the path of a name in a directory."""
    return path + b"/" + name if path else name


def walk(root: Entry, fetch: Fetch) -> Iterator[Directory]:
    """Yield all directories of a tree, each after the one that holds it.

    Raises:
        LimitExceeded: it is deeper, or has more entries, than a reader accepts.
        Damaged: a node is not what its id says.
    """
    left = [(b"", root, 0)]
    count = 0
    while left:
        path, entry, depth = left.pop()
        entries = fetch(entry, path)
        count += len(entries)
        if count > TREE_ENTRIES_MAX:
            raise LimitExceeded(f"{show(path)}: more than {TREE_ENTRIES_MAX} entries in the tree")
        if depth > TREE_DEPTH_MAX:
            raise LimitExceeded(f"{show(path)}: deeper than {TREE_DEPTH_MAX} directories")
        yield Directory(path, entry, entries)
        left.extend(
            (join(path, child.name), child, depth + 1)
            for child in reversed(entries)
            if child.kind == DIRECTORY
        )


def differ(before: Entry, after: Entry, fetch: Fetch) -> Iterator[Change]:
    """Yield how two trees differ; equal directories are not looked into.

    Args:
        before: the root of the older tree.
        after: the root of the newer one.
        fetch: returns a directory's entries, of either tree.
    """
    left: list[tuple[bytes, Entry | None, Entry | None]] = [(b"", before, after)]
    while left:
        path, old, new = left.pop()
        olds = {entry.name: entry for entry in fetch(old, path)} if old else {}
        news = {entry.name: entry for entry in fetch(new, path)} if new else {}
        for name in sorted(olds.keys() | news.keys()):
            was, now = olds.get(name), news.get(name)
            if was == now:
                continue
            place = join(path, name)
            change = _compare(place, was, now)
            if change is not None:
                yield change
            old_node, new_node = _node(was), _node(now)
            if (old_node or new_node) and not _same_content(old_node, new_node):
                left.append((place, old_node, new_node))


def _compare(path: bytes, was: Entry | None, now: Entry | None) -> Change | None:
    """Return how one name differs; None: it is a directory in both whose own attributes are equal."""
    if was is None:
        assert now is not None
        return Change(path, "added", now.kind, 0, _size(now))
    if now is None:
        return Change(path, "removed", was.kind, _size(was), 0)
    if was.kind == now.kind == DIRECTORY and _attributes(was) == _attributes(now):
        return None
    return Change(path, "changed", now.kind, _size(was), _size(now))


def _attributes(entry: Entry) -> tuple[object, ...]:
    """Return what people change of a directory; its modification time only says that names in it changed."""
    return entry.mode, entry.uid, entry.gid, entry.xattrs


def _node(entry: Entry | None) -> Entry | None:
    """Return the entry if it is a directory."""
    return entry if entry is not None and entry.kind == DIRECTORY else None


def _same_content(one: Entry | None, other: Entry | None) -> bool:
    """Return whether both are directories with equal nodes."""
    return one is not None and other is not None and one.content == other.content


def _size(entry: Entry) -> int:
    """Return the bytes that a user would see."""
    return entry.size if entry.kind == FILE else 0
