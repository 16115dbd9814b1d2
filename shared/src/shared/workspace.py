"""Workspaces as the services name them: snapshots, heads, and what is asked of checkpointers.

Two heads lie in the session's record (`shared.record`): `boundary` and `latest`. Beside it lies the workspace head, which
says what else is retained; checkpointers alone write it, by compare-and-set.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shared import limits
from shared.errors import ErrorInfo
from shared.messages import Message
from shared.pools import Excludes

SnapshotId = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\s)")]
"""blake3 of the snapshot's body, hexadecimal."""
PackKey = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){2}$(?!\s)", max_length=200)
]
"""`<tenant>/<session>/<name>`: the key of a pack in its store."""
JobId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{7,127}$(?!\s)")]

Wanted = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=limits.SNAPSHOT_NAME_LENGTH_MAX,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\s)",
    ),
]
"""A snapshot, as people name it: its name, its id, or the beginning of its id."""

Op = Literal["save", "restore", "rescue", "look", "retain"]
"""`look`: before a rescue, see whether a dead pod's workspace is whole, nothing of a task without a result in it; one that
is not has failed. `retain`: find a snapshot, and make sure that it stays until the record names it."""
JobState = Literal["running", "scanned", "gate_open", "done", "failed"]
"""How far a job is. `scanned`: a save has read all that it needs of the live tree, user code may go on. `gate_open`: a
restore has written what is needed first; user code waits for `done` (ADR 0036)."""
JOB_ENDS: frozenset[str] = frozenset({"done", "failed"})


class SnapshotRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One saved state of a workspace, named completely: immutable."""

    id: SnapshotId
    pack: PackKey
    """The pack that holds its body."""
    at_ms: int
    """When its tree was read: wall clock of its checkpointer, milliseconds since 1970."""
    entries: int = 0
    """Files, directories and links in it."""
    bytes: int = 0
    """Content of its files."""
    lineage: int = 0
    """Grows along the chain of a session's snapshots, whichever checkpointer makes them."""


class Latest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A snapshot that is newer than `boundary`: taken in the middle of a task, or by a rescue."""

    snapshot: SnapshotRef
    task: str
    """The task in hand; empty: none was."""
    attempt: int
    epoch: int
    """Under which it was written."""


class Retained(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A snapshot that is kept."""

    snapshot: SnapshotRef
    epoch: int
    """Of the record when it was added: one that is not older than the record's is kept whatever else holds."""
    task: str = ""
    """The task after which, or in the middle of which, it was taken."""
    name: str = ""
    """Kept by this name until it is removed by name."""


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A fork holds on to a snapshot."""

    snapshot: SnapshotId
    session: str
    """The fork."""


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """Where a fork comes from."""

    session: str
    snapshot: SnapshotRef


class WorkspaceHead(Message, frozen=True, kw_only=True, omit_defaults=True):
    """What is retained of one session's workspace, beside the heads in its record."""

    session: str
    tenant: str
    pool: str
    gc_seq: int = 0
    """Grows with each collection, by the write that expires snapshots: it fences writers."""
    retained: tuple[Retained, ...] = ()
    """Oldest first."""
    pins: tuple[Pin, ...] = ()
    base: Base | None = None
    """Of a fork."""
    deleted: bool = False
    """The session has ended: its packs go, what is pinned with the last fork."""


class CheckpointAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Ask a checkpointer for a job, or how far it is: the same `job` is never started twice."""

    job: JobId
    op: Op
    tenant: str
    pool: str
    session: str
    epoch: int
    """Of the record: the checkpointer verifies it, and does nothing for an older one."""
    pod: str
    """Whose workspace: of the worker that asks, or of the one that died."""
    task: str = ""
    attempt: int = 0
    snapshot: SnapshotRef | None = None
    """`save`, `rescue`: the newest head, on which the new snapshot builds. `restore`: what is wanted."""
    wanted: Wanted | None = None
    """`retain`: which snapshot, as people name it."""
    exclude: Excludes = ()
    """`save`: patterns of files that the snapshot does not hold."""
    frozen: bool = False
    """User code stands still until `scanned`."""
    left_s: float = 60.0
    """How long the asker waits yet, seconds; the job ends by itself after that."""
    traceparent: str = ""
    """Under which span the job's own belongs; empty: it is not traced."""
    tracestate: str = ""
    knows: JobState | None = None
    """What the asker was answered last: the answer comes once there is more to say, within `POLL_S` at most."""


MARK = "workspace.json"
"""File of a pod's folder, out of its sandbox's reach, that says what is in its workspace: a `Mark`."""


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker says of its workspace, for whoever rescues it once all of the pod's processes are gone.

    Without a mark it was not restored to its end, or is of no use any more: nobody rescues it.
    """

    session: str
    epoch: int
    task: str = ""
    """The task whose effects are in it in part; empty: none. A rescue is due only where the record is about the same
    task, or where this is empty: else the task has another's result, and what it did here is nobody's."""
    exclude: Excludes = ()
    """Patterns of files that a snapshot of it does not hold."""


POLL_S = 1.0
"""A checkpointer answers an ask after so long at most, whatever there is to say."""
AWAY_S = 5.0
"""A checkpointer that does not answer for so long is away: it is asked again under the same id until the deadline."""


class CheckpointAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """How far a job is."""

    job: JobId
    state: JobState
    done_bytes: int = 0
    total_bytes: int = 0
    done_entries: int = 0
    total_entries: int = 0
    snapshot: SnapshotRef | None = None
    """Of a `save` or `rescue` that is `done`: the new snapshot, or the one it built on where nothing had changed. None:
    there was none and the workspace is empty."""
    torn: tuple[str, ...] = ()
    """Paths that changed while they were read: their former content was kept."""
    waits: str = ""
    """Why the store keeps it waiting, or did until it failed; empty: it does not."""
    error: ErrorInfo | None = None
    """Of `failed`: `unavailable` and `outcome_unknown` (the store), `limit_exceeded` (names path and limit), `stale_epoch`,
    `not_found` (the snapshot), `invalid_message` (a snapshot that can't be read)."""


class CheckpointerBeat(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpointer's heartbeat."""

    node: str
    started_ms: int
    """Start of its process: what it was asked before is forgotten."""
    store: str = ""
    """Id of its store."""
    unavailable: str = ""
    """Why the store can't be used now; empty: it can."""
    jobs: int = 0
    """Under way."""
