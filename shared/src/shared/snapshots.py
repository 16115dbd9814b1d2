"""What clients ask about a session's snapshots under `ask.<tenant>.…`, and what pool-managers ask checkpointers for it.

Nothing here needs a pod: what a session retains stands in its record and its workspace head.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shared import limits
from shared.errors import ErrorInfo, InvalidMessage, NotFound
from shared.messages import Message
from shared.record import ENDED, Record
from shared.workspace import Retained, SnapshotId, SnapshotRef, Wanted, WorkspaceHead

PREFIX_LENGTH_MIN = 8
"""Characters of an id by which a snapshot may be meant."""
_HEX = frozenset("0123456789abcdef")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

Name = Annotated[
    str,
    Meta(max_length=limits.SNAPSHOT_NAME_LENGTH_MAX, pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$(?!\s)"),
]  # fmt: skip
SessionId = Annotated[str, Meta(min_length=1, max_length=64)]


class SnapshotsAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for a session's snapshots."""

    session: SessionId


class SnapshotRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One snapshot of a session."""

    id: SnapshotId
    at_ms: int
    """When the files were read: wall clock, milliseconds since 1970."""
    bytes: int = 0
    """Content of its files."""
    entries: int = 0
    """Files, directories and links in it."""
    task: str = ""
    """The task after which, or in the middle of which, it was taken."""
    name: str = ""
    """It is kept by this name until the name is taken away."""
    forks: int = 0
    """Sessions that began with it, and keep it."""
    head: Literal["boundary", "latest", "base"] | None = None
    """`boundary`: it holds what the last completed task left behind. `latest`: a newer one, from the middle of a task.
    `base`: of a fork, what it began with."""


class SnapshotsAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A session's snapshots, the newest first."""

    session: str = ""
    snapshots: tuple[SnapshotRow, ...] = ()
    error: ErrorInfo | None = None


class NameAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Ask to keep a snapshot by a name, whatever else is removed; an empty one takes its name away."""

    session: SessionId
    snapshot: Wanted
    name: Name = ""


class SnapshotAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """One snapshot, as it is now."""

    snapshot: SnapshotRow | None = None
    error: ErrorInfo | None = None


class ForkAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for a new session that begins with a snapshot of another one. The same `fork` again is the same session."""

    session: SessionId
    """Whose snapshot."""
    fork: SessionId
    """Id of the new session, a UUID or ULID that the client makes."""
    snapshot: Wanted | None = None
    """None: what its last completed task left behind."""


class ForkAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A new session."""

    session: str = ""
    pool: str = ""
    snapshot: SnapshotRow | None = None
    """What it begins with."""
    error: ErrorInfo | None = None


class DiffAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Ask how two snapshots of a session differ, a page at a time."""

    session: SessionId
    before: Wanted
    after: Wanted | None = None
    """None: the newest one."""
    limit: Annotated[int, Meta(ge=1, le=limits.ASK_ITEMS_MAX)] = 100
    skip: Annotated[int, Meta(ge=0, le=limits.DIFF_CHANGES_MAX)] = 0
    """`next` of the page before."""


class DiffRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one path differs."""

    path: str
    """From the workspace; bytes that are no UTF-8 as `\\xNN`."""
    change: Literal["added", "changed", "removed"]
    type: str = "file"
    """`file`, `directory`, `symlink` or `other`; of what was removed, what it was."""
    size_before: int = 0
    size_after: int = 0


class DiffAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A page of differences."""

    before: str = ""
    """Id of the older snapshot."""
    after: str = ""
    changes: tuple[DiffRow, ...] = ()
    next: int | None = None
    """Pass it as `skip` for the next page; None: this was the last."""
    truncated: bool = False
    """There are more than can be paged through."""
    error: ErrorInfo | None = None


# --- what pool-managers ask checkpointers -----------------------------------------------------------------------------


class PinAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """`ckpt.any.pin`: hold on to a snapshot for a fork, and find that it is still retained after that."""

    tenant: str
    session: str
    """The parent."""
    fork: str
    fork_pool: str
    snapshot: SnapshotRef


class LabelAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """`ckpt.any.name`: name a snapshot, or take its name away."""

    tenant: str
    session: str
    snapshot: SnapshotId
    name: str = ""


class CompareAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """`ckpt.any.diff`: how two snapshots differ."""

    before: SnapshotRef
    after: SnapshotRef
    skip: int = 0
    limit: int = 100


class KeeperAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpointer's answer."""

    changes: tuple[DiffRow, ...] = ()
    more: bool = False
    """There are differences behind these."""
    error: ErrorInfo | None = None


# --- which snapshots there are ----------------------------------------------------------------------------------------


def kept(record: Record, head: WorkspaceHead | None) -> list[Retained]:
    """Return a session's snapshots, oldest first: what its head retains, and what its record names.

    Of one that has ended only what forks began with stays, with the last of them.
    """
    found: dict[str, Retained] = {}
    if record.state in ENDED:
        pinned = {pin.snapshot for pin in head.pins} if head is not None else set()
        of_forks = [one for one in head.retained if one.snapshot.id in pinned] if head else []
        return list({one.snapshot.id: one for one in of_forks}.values())
    for one in (
        head.retained if head is not None else ()
    ):  # one that was gone back to is there twice
        found.setdefault(one.snapshot.id, one)
    named = [
        Retained(snapshot=record.base.snapshot, epoch=0) if record.base else None,
        Retained(snapshot=record.boundary, epoch=record.epoch) if record.boundary else None,
        Retained(
            snapshot=record.latest.snapshot, epoch=record.latest.epoch, task=record.latest.task
        )
        if record.latest
        else None,
    ]
    for extra in named:
        if extra is not None:
            found.setdefault(extra.snapshot.id, extra)
    return sorted(found.values(), key=lambda one: (one.snapshot.at_ms, one.snapshot.lineage))


def find(record: Record, head: WorkspaceHead | None, wanted: str | None) -> Retained:
    """Return the snapshot that somebody means: by name, by id, or by the beginning of its id.

    Args:
        record: the session's.
        head: its workspace head; None: it has none.
        wanted: None: what its last completed task left behind, else the newest there is.

    Raises:
        NotFound: the session has no such snapshot (any more).
        InvalidMessage: several ids begin so.
    """
    known = kept(record, head)
    if record.state in ENDED and not known:
        raise NotFound(f"session {record.session} has ended ({record.state}): its files are gone")
    if wanted is None and record.state not in ENDED:
        newest = record.boundary or (record.latest.snapshot if record.latest else None)
        if newest is None:
            raise NotFound(f"session {record.session} has no snapshot yet: nothing was ever saved")
        return next(one for one in known if one.snapshot.id == newest.id)
    if wanted is None:
        return known[-1]
    for one in known:
        if wanted in (one.name, one.snapshot.id):
            return one
    meant = [one for one in known if one.snapshot.id.startswith(wanted)]
    if len(wanted) >= PREFIX_LENGTH_MIN and len(meant) == 1:
        return meant[0]
    if len(wanted) >= PREFIX_LENGTH_MIN and meant:
        raise InvalidMessage(
            f"snapshot: {len(meant)} of session {record.session} begin with {wanted[:64]}"
        )
    raise NotFound(
        f"snapshot: session {record.session} has none of that name or id (any more): {wanted[:64]}"
    )


def rows(record: Record, head: WorkspaceHead | None) -> Iterator[SnapshotRow]:
    """Yield a session's snapshots as they are shown, newest first."""
    for one in reversed(kept(record, head)):
        yield row(one, record, head)


def row(one: Retained, record: Record, head: WorkspaceHead | None) -> SnapshotRow:
    """Return one snapshot as it is shown."""
    ref = one.snapshot
    which: Literal["boundary", "latest", "base"] | None = None
    if record.state in ENDED:
        which = None  # it goes on from nothing any more
    elif record.boundary is not None and ref.id == record.boundary.id:
        which = "boundary"
    elif record.latest is not None and ref.id == record.latest.snapshot.id:
        which = "latest"
    elif record.base is not None and ref.id == record.base.snapshot.id:
        which = "base"
    pins = head.pins if head is not None else ()
    return SnapshotRow(
        id=ref.id,
        at_ms=ref.at_ms,
        bytes=ref.bytes,
        entries=ref.entries,
        task=one.task,
        name=one.name,
        forks=sum(pin.snapshot == ref.id for pin in pins),
        head=which,
    )


def check_name(name: str) -> str:
    """Return a name that a snapshot may have; empty: none.

    Raises:
        InvalidMessage: it is none, or could be the beginning of an id.
    """
    if name:
        _check_form("name", name)
    if len(name) >= PREFIX_LENGTH_MIN and set(name) <= _HEX:
        raise InvalidMessage(f"name: {name!r} could be the beginning of an id")
    return name


def check_wanted(wanted: str) -> str:
    """Return how somebody means a snapshot.

    Raises:
        InvalidMessage: it is neither a name nor the beginning of an id.
    """
    return _check_form("snapshot", wanted)


def _check_form(field: str, said: str) -> str:
    if len(said) > limits.SNAPSHOT_NAME_LENGTH_MAX or not _NAME.fullmatch(said):
        raise InvalidMessage(
            f"{field}: {said[:80]!r}: at most {limits.SNAPSHOT_NAME_LENGTH_MAX} letters, digits, `.`, `_` and `-` "
            "expected (SNAPSHOT_NAME_LENGTH_MAX), the first a letter or digit"
        )
    return said
