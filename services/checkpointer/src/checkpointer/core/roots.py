"""What a session's record says about its snapshots, as far as their keeping is concerned. Pure."""

from __future__ import annotations

import msgspec

from shared.record import ENDED, Record
from shared.workspace import SnapshotRef


class Roots(msgspec.Struct, frozen=True, kw_only=True):
    """The record's word."""

    epoch: int = 0
    heads: tuple[SnapshotRef, ...] = ()
    """`boundary` and `latest`, where there are any."""
    ended: bool = False
    """The session will never run again."""
    base: str = ""
    """Of a fork: the session that it comes from."""

    @property
    def ids(self) -> frozenset[str]:
        """Names of the heads."""
        return frozenset(head.id for head in self.heads)


def roots_of(record: Record | None) -> Roots:
    """Return what a record says; one that is not there any more has ended long ago."""
    if record is None:
        return Roots(ended=True)
    base = record.base.session if record.base else ""
    if record.state in ENDED:
        return Roots(epoch=record.epoch, ended=True, base=base)
    heads = [record.boundary, record.latest.snapshot if record.latest else None]
    known = tuple(head for head in heads if head is not None)
    return Roots(epoch=record.epoch, heads=known, base=base)
