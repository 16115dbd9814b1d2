"""From what was read to the nodes of a new tree: children before their parents, what did not change taken over."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from checkpointer.core.bounds import NODE_BYTES_MAX
from checkpointer.core.content import Content
from checkpointer.core.entries import (
    DIRECTORY,
    FIFO,
    FILE,
    SOCKET,
    Entry,
    decode_node,
    encode_node,
    show,
)
from checkpointer.core.listings import Stat
from checkpointer.core.plan import KIND_OF, Known, Plan, Work, owner_number
from checkpointer.core.scans import Folder, Scan
from checkpointer.core.trees import join
from shared.errors import LimitExceeded

EMPTY_NODE = encode_node(())


class Found(NamedTuple):
    """What reading one path came to."""

    entry: Entry | None
    """None: there is nothing to save by this name."""
    is_settled: bool
    """It is what the scan saw: unchanged next time if its signature is."""


class Assembled(msgspec.Struct):
    """A tree."""

    root: Content
    nodes: dict[bytes, bytes]
    """Path -> node of each directory that differs from the cached one."""
    changed: list[bytes]
    """Files that are new or differ."""
    unsettled: dict[bytes, set[bytes]]
    """Directory -> names to be read again next time."""


class Assembler:
    """Builds the tree of one save."""

    def __init__(
        self,
        scan: Scan,
        plan: Plan,
        found: Mapping[bytes, Found],
        keep: Callable[[bytes], Content],
    ) -> None:
        """Keep what to build from.

        Args:
            scan: what is there.
            plan: what of it differs.
            found: path -> what reading came to, for all that the plan wanted.
            keep: stores a node and returns what its directory's entry says.
        """
        self._scan = scan
        self._works = plan.works
        self._found = found
        self._keep = keep
        self._links = {item.stat.link: found[item.path] for item in plan.wanted if item.stat.link}
        self._contents: dict[bytes, Content] = {}
        self._result = Assembled(Content(0, b""), {}, [], {})

    def build(self, known: Mapping[bytes, Known]) -> Assembled:
        """Return the tree.

        Args:
            known: the cached directories by their paths.

        Raises:
            LimitExceeded: a directory's entries say too much of themselves; names it.
        """
        stale: set[bytes] = set()
        for number in range(len(self._scan.folders) - 1, -1, -1):
            folder = self._scan.folders[number]
            work = self._works.get(number)
            old = known.get(folder.path)
            if work is None and folder.path not in stale:
                continue
            if work is None:
                assert old is not None
                entries = [
                    self._refresh(folder, one) for one in decode_node(old.node, show(folder.path))
                ]
            else:
                entries = self._entries(folder, work, known)
            node = encode_node(entries)
            if old is not None and node == old.node:
                continue
            check_size(node, folder.path)
            self._result.nodes[folder.path] = node
            self._contents[folder.path] = self._keep(node)
            if folder.path:
                stale.add(folder.path.rpartition(b"/")[0])
        if b"" in self._contents:
            self._result.root = self._contents[b""]
        return self._result

    def _refresh(self, folder: Folder, entry: Entry) -> Entry:
        """Return an entry that did not change itself, with what lies below it now."""
        if entry.kind != DIRECTORY:
            return entry
        content = self._contents.get(join(folder.path, entry.name))
        return entry if content is None else _with_content(entry, content)

    def _entries(self, folder: Folder, work: Work, known: Mapping[bytes, Known]) -> list[Entry]:
        """Return the entries of a directory that differs."""
        entries: list[Entry] = []
        for name, about in folder.listing.sorted():
            before = work.before.get(name)
            if name in work.same and before is not None:
                entries.append(self._refresh(folder, before))
                continue
            path = join(folder.path, name)
            found = self._find(path, about)
            if not found.is_settled:
                self._result.unsettled.setdefault(folder.path, set()).add(name)
            entry = found.entry
            if entry is None:
                continue
            if entry.name != name:  # read by another name of the file
                entry = msgspec.structs.replace(entry, name=name)
            if entry.kind == DIRECTORY:
                entry = _with_content(entry, self._content_of(path, known, before))
            elif entry != before and entry.kind == FILE:
                self._result.changed.append(path)
            entries.append(entry)
        return entries

    def _find(self, path: bytes, about: Stat) -> Found:
        """Return what to say of a name that is new or differs."""
        kind = KIND_OF[stat.S_IFMT(about.mode)]
        if kind in {FIFO, SOCKET}:
            name = path.rpartition(b"/")[2]
            return Found(make_entry(name, about, self._scan), is_settled=True)
        found = self._found.get(path)
        return self._links[about.link] if found is None else found

    def _content_of(
        self, path: bytes, known: Mapping[bytes, Known], before: Entry | None
    ) -> Content:
        """Return what lies below a directory whose own entry differs."""
        content = self._contents.get(path)
        if content is not None:
            return content
        old = known.get(path)
        if old is not None:
            return self._keep(old.node)
        # It could not be opened, this time or since several saves: what was last seen of it stays.
        if before is not None and before.kind == DIRECTORY:
            return Content(before.size, before.content, before.lengths, before.form, before.cut)
        return self._keep(EMPTY_NODE)


def check_size(node: bytes, path: bytes) -> None:
    """Refuse a node that no restore would read.

    Raises:
        LimitExceeded: names its directory.
    """
    if len(node) > NODE_BYTES_MAX:
        where = show(path) or "the root"
        raise LimitExceeded(
            f"{where}: what its entries say of themselves has {len(node)} bytes, at most {NODE_BYTES_MAX}"
        )


def make_entry(name: bytes, about: Stat, scan: Scan, content: Content | None = None) -> Entry:
    """Return the entry of something that was looked at, without its attributes."""
    made = content or Content(0, b"")
    return Entry(
        name,
        KIND_OF[stat.S_IFMT(about.mode)],
        stat.S_IMODE(about.mode),
        owner_number(about.uid, scan.uid),
        owner_number(about.gid, scan.gid),
        about.mtime_ns,
        made.size,
        made.content,
        made.lengths,
        made.form,
        made.cut,
        about.link,
    )


def _with_content(entry: Entry, content: Content) -> Entry:
    """Return a directory's entry with another node."""
    return msgspec.structs.replace(
        entry,
        size=content.size,
        content=content.content,
        lengths=content.lengths,
        form=content.form,
        cut=content.cut,
    )
