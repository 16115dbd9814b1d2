"""What a batch's reads mean for the tree: entries, former ones where a file would not hold still, nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from checkpointer.adapters.engine.batches import Batch, Read
from checkpointer.adapters.files.attributes import Attributes
from checkpointer.adapters.files.read import Outcome
from checkpointer.core.assemble import Found, make_entry
from checkpointer.core.chunks import Rule, note_change
from checkpointer.core.content import Content, Piece, describe
from checkpointer.core.entries import DIRECTORY, WHOLE, Entry, Id, show
from checkpointer.core.listings import Stat
from checkpointer.core.plan import NOTHING, Wanted
from checkpointer.core.scans import Scan
from shared import limits
from shared.errors import LimitExceeded


class Findings:
    """Collects reads until all of a file is there."""

    def __init__(self, scan: Scan, keep_list: Callable[[bytes], Id]) -> None:
        """Begin with none.

        Args:
            scan: what was seen.
            keep_list: stores a list node and returns its id.
        """
        self.found: dict[bytes, Found] = {}
        self.torn: list[bytes] = []
        """Paths of which an older state is kept, or none."""
        self._scan = scan
        self._keep_list = keep_list
        self._parts: dict[bytes, list[Read]] = {}
        self._attribute_bytes = 0

    def add(self, batch: Batch) -> None:
        """Take what was read; parts of a file come in their order.

        Raises:
            LimitExceeded: the attributes of all have too many bytes; names the file that passes it.
        """
        self.found.update(batch.settled)
        for read in batch.reads:
            item = read.item
            if read.attributes:
                self._count(item.wanted.path, read.attributes)
            if item.end is None:
                self.found[item.wanted.path] = self._settle(item.wanted, read)
                continue
            parts = self._parts.setdefault(item.wanted.path, [])
            parts.append(read)
            if item.end >= item.wanted.stat.size:
                del self._parts[item.wanted.path]
                self.found[item.wanted.path] = self._settle(item.wanted, _join(parts))

    def _count(self, path: bytes, attributes: Attributes) -> None:
        """Bound what is held of attributes until the tree is built."""
        self._attribute_bytes += sum(len(name) + len(value) for name, value in attributes)
        if self._attribute_bytes > limits.WORKSPACE_XATTRS_BYTES_MAX:
            most = limits.WORKSPACE_XATTRS_BYTES_MAX
            raise LimitExceeded(
                f"{show(path)}: extended attributes of all changed files have more than {most} bytes"
            )

    def _settle(self, wanted: Wanted, read: Read) -> Found:
        """Return what stands for one path."""
        match read.outcome:
            case Outcome.READ:
                assert read.stat is not None
                same = read.stat == wanted.stat or read.stat.is_same_file(wanted.stat)
                return Found(self._make(wanted, read, read.stat), is_settled=same)
            case Outcome.GONE | Outcome.MOUNT:
                return Found(None, is_settled=False)
            case _:
                self.torn.append(wanted.path)
                before = wanted.before
                if before is not NOTHING and before.kind != DIRECTORY:
                    return Found(before, is_settled=False)
                if read.stat is None or (read.content is None and read.pieces is None):
                    return Found(None, is_settled=False)
                return Found(self._make(wanted, read, read.stat), is_settled=False)

    def _make(self, wanted: Wanted, read: Read, about: Stat) -> Entry:
        """Return the entry of what was read."""
        content = read.content
        if content is None:
            content = self._describe(read.pieces, read.cut)
        if wanted.stat.link:
            about = about._replace(link=wanted.stat.link)
        entry = make_entry(wanted.name, about, self._scan, content)
        if content.cut == WHOLE and not read.attributes:
            return entry
        cut = note_change(Rule(content.cut), wanted.before, content.size, content.content)
        if cut != content.cut or read.attributes:
            entry = msgspec.structs.replace(entry, cut=cut, xattrs=read.attributes)
        return entry

    def _describe(self, pieces: Sequence[Piece] | None, cut: int) -> Content:
        """Return the content of these chunks; of none, an empty one."""
        return describe(pieces, cut, self._keep_list) if pieces else Content(0, b"")


def _join(parts: list[Read]) -> Read:
    """Return the parts of a file as one read: torn, unless all are of one moment and complete."""
    first = parts[0]
    pieces = [piece for part in parts for piece in part.pieces or ()]
    bad = next((part.outcome for part in parts if part.outcome is not Outcome.READ), None)
    whole = first.stat is not None and sum(size for _, size in pieces) == first.stat.size
    if bad is None and (not whole or any(part.stat != first.stat for part in parts)):
        bad = Outcome.TORN
    if bad is None:
        return first._replace(pieces=pieces)
    return first._replace(outcome=bad, pieces=pieces if whole else None)
