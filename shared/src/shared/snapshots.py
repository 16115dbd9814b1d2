"""What clients ask about a session's snapshots under `ask.<tenant>.…`, and what pool-managers ask checkpointers for it.

Nothing here needs a pod: what a session retains stands in its record and its workspace head.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shared import limits
from shared.errors import ErrorInfo, InvalidMessage
from shared.messages import Message
from shared.workspace import SnapshotId, SnapshotRef, Wanted

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
