"""Whether the workspace of a pod that died is worth saving, who can do it, and until when it is waited for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from pool_manager.core.nodes import still_cut
from shared.limits import WORKSPACE_BYTES_MAX
from shared.messages import PodGone
from shared.pools import OnInterrupt
from shared.record import Record
from shared.traces.context import Context
from shared.workspace import CheckpointAsk, CheckpointerBeat, SnapshotRef

ALIVE_S = 2.0
"""A checkpointer that was not heard for so long is taken for dead or hung: nobody waits for it."""
FORGET_S = 600.0
FILES_LEFT = frozenset({"exited", "killed", "sandbox_lost", "zygote_lost", "absent"})
"""What a living node says, or shows, of a pod whose processes are gone and whose files it keeps. Of one that is `absent` the
word of its end was lost: where it was deleted, its checkpointer finds nothing and says so at once."""
GRACE_MS = 2_000
BYTES_PER_MS = 100_000
"""100 MB/s, of what the workspace may hold; a snapshot holds no more than `WORKSPACE_BYTES_MAX`."""
LATE_S = 1.0
"""Clocks, and the way of messages: a rescue is called late by others only after so much more."""


class Checkpointer(msgspec.Struct):
    """One as last heard."""

    seen: float
    started_ms: int
    unavailable: str
    cut_at: float | None = None
    """When its connection ended, unless it was heard since."""


class Checkpointers:
    """Which nodes' checkpointers live. Pure: times are arguments."""

    def __init__(self) -> None:
        """Know none."""
        self._known: dict[str, Checkpointer] = {}

    def heard(self, beat: CheckpointerBeat, now: float) -> None:
        """Take in a heartbeat."""
        before = self._known.get(beat.node)
        if before is not None and beat.started_ms < before.started_ms:
            return  # a late one of a former process
        cut_at = still_cut(before.cut_at if before else None, now)
        self._known[beat.node] = Checkpointer(now, beat.started_ms, beat.unavailable, cut_at)

    def cut(self, node: str, now: float) -> None:
        """A server says that the connection of a node's checkpointer to it ended."""
        if (known := self._known.get(node)) is not None:
            known.cut_at = now

    def is_heard(self, node: str | None, now: float) -> bool:
        """Return whether a checkpointer lives, for all that is known: then its node does."""
        known = None if node is None else self._known.get(node)
        return known is not None and known.cut_at is None and now - known.seen <= ALIVE_S

    def problem(self, node: str | None, now: float) -> str:
        """Return why a node's checkpointer can't be asked now; empty: it can."""
        known = None if node is None else self._known.get(node)
        if known is None:
            return "it was never heard"
        if now - known.seen > ALIVE_S:
            return f"it was silent for {now - known.seen:.1f} s"
        return known.unavailable

    def heard_at(self, node: str) -> float | None:
        """Return when a node's checkpointer was heard last; None: never, or not for long."""
        known = self._known.get(node)
        return None if known is None else known.seen

    def is_silent(self, node: str | None, now: float) -> bool:
        """Return whether a checkpointer that was heard once is heard no more."""
        known = None if node is None else self._known.get(node)
        return known is None or now - known.seen > ALIVE_S

    def forget(self, now: float) -> None:
        """Drop those that were not heard for long."""
        for node in [name for name, one in self._known.items() if now - one.seen > FORGET_S]:
            del self._known[node]


class _Wish(msgspec.Struct):
    """The part of a task's body that matters here."""

    on_interrupt: OnInterrupt | None = None
    keep: bool = False
    kind: str = ""
    tty: Mapping[str, object] | None = None


_decoder = msgspec.json.Decoder(_Wish)


def are_files_left(gone: PodGone | None, cause: str, *, node_speaks: bool) -> bool:
    """Return whether a dead pod's workspace may still be on its living node.

    Args:
        gone: what was said of the pod's end.
        cause: why its worker is given up.
        node_speaks: the node itself says which pods it has, and so, too, when one has ended; a Kubernetes node does not.
            There a sandbox ends with its worker's process, and kubelet removes the files some time after that.
    """
    if gone is not None:
        return gone.cause in FILES_LEFT
    return cause == ("pod_absent" if node_speaks else "disconnect")


Worth = Literal["saving", "saving_if_whole", "nothing"]


def worth(record: Record, body: bytes | None, pool_rule: OnInterrupt) -> Worth:
    """Return whether what a dead pod's workspace holds beyond `boundary` will be used.

    `saving_if_whole`: not what the task in hand did, which begins again from `boundary`. But it may have come in when its
    worker was dead already; then nothing of it is there, and all that is there is the session's.

    Args:
        record: as its owner had it.
        body: of the task in hand; None: there was none.
        pool_rule: what the pool does with a task whose worker died, unless the task says otherwise.
    """
    of_the_session: Worth = "saving" if record.first_done else "nothing"
    if body is None:
        return of_the_session
    try:
        wish = _decoder.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return of_the_session  # it is refused when it is read: the next task goes on from the files
    rule = "fail" if wish.tty is not None else wish.on_interrupt or pool_rule
    if rule == "rerun":
        return "saving_if_whole" if record.first_done else "nothing"
    if rule == "resume" or record.keep or wish.keep or wish.kind == "open":
        return "saving"
    return "nothing"


def newest(record: Record) -> SnapshotRef | None:
    """Return the newest snapshot of a session: on it the next one builds."""
    return record.latest.snapshot if record.latest is not None else record.boundary


def patience_ms(record: Record, disk_bytes: int) -> int:
    """Return how long a rescue may take, milliseconds.

    Args:
        record: the session's.
        disk_bytes: what its pool lets a workspace hold.
    """
    ref = newest(record)
    size = max(disk_bytes, 2 * ref.bytes if ref is not None else 0)
    return GRACE_MS + min(size, WORKSPACE_BYTES_MAX) // BYTES_PER_MS


def job_of(rescuing: Record) -> str:
    """Return the id of a rescue: whoever asks, asks for the same one."""
    return f"rescue-{rescuing.session}-{rescuing.epoch}"


def look_of(record: Record, pod: str, left_s: float) -> CheckpointAsk:
    """Return what the checkpointer is asked before a rescue: whether the workspace is whole.

    Args:
        record: as its dead owner had it.
        pod: the one that died.
        left_s: how long its answer is waited for, seconds.
    """
    return CheckpointAsk(
        job=f"look-{record.session}-{record.epoch + 1}",
        op="look",
        tenant=record.tenant,
        pool=record.pool,
        session=record.session,
        epoch=record.epoch + 1,
        pod=pod,
        left_s=left_s,
    )


def ask_of(rescuing: Record, now_ms: int, trace: Context | None = None) -> CheckpointAsk:
    """Return what the checkpointer is asked.

    Args:
        rescuing: the record, as it was written when the owner was given up.
        now_ms: wall clock, milliseconds since 1970.
        trace: what the rescue's span belongs to; None: it has none.
    """
    return CheckpointAsk(
        job=job_of(rescuing),
        op="rescue",
        tenant=rescuing.tenant,
        pool=rescuing.pool,
        session=rescuing.session,
        epoch=rescuing.epoch,
        pod=rescuing.rescue_pod,
        task=rescuing.death_task,
        attempt=rescuing.attempt,
        snapshot=newest(rescuing),
        left_s=max(0.0, (rescuing.rescue_until_ms - now_ms) / 1000),
        traceparent="" if trace is None else trace.traceparent,
        tracestate="" if trace is None else trace.state,
    )
