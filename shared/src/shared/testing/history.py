"""What happened, as data: what clients were promised, what the streams held, what user code did.

Made by hand in tests of the checker, and by `shared.testing.recorder` from a running cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shared.messages import TaskResult
from shared.record import Record

Place = tuple[int, int]
"""(shard, stream sequence) in a state stream: where and in which order something was stored."""
TaskKey = tuple[str, str, str]
"""(tenant, session, task)."""


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was published."""

    tenant: str
    session: str
    task: str
    seq: int = 0
    """Sequence of its inbox entry, from the PubAck; 0: the session's first task."""
    certain: bool = True
    """False: its publish got no answer, so it may never have arrived."""
    expect: tuple[str, ...] = ("ok",)
    """Statuses that its result may have; empty: any."""

    @property
    def key(self) -> TaskKey:
        """What names the task."""
        return self.tenant, self.session, self.task


class Version(msgspec.Struct, frozen=True):
    """A record as it was stored once."""

    at: Place
    record: Record


class Outcome(msgspec.Struct, frozen=True):
    """A result as it was stored once."""

    at: Place
    result: TaskResult

    @property
    def key(self) -> TaskKey:
        """Whose result it is."""
        return self.result.tenant, self.result.session, self.result.task


class Begin(msgspec.Struct, frozen=True):
    """User code of a task began to run: an effect on the outside world, which no fence can take back."""

    tenant: str
    session: str
    task: str
    epoch: int


class History(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a run. In any order; what was seen twice may stand here twice."""

    accepted: tuple[Accepted, ...]
    """What clients published, and what the streams hold though no client heard a PubAck."""
    versions: tuple[Version, ...] = ()
    """Every version of every record that was seen, the last ones among them."""
    outcomes: tuple[Outcome, ...] = ()
    """Every result that was seen stored, also one that was overwritten later."""
    kept: frozenset[Place] = frozenset()
    """Places of the results that are stored at the end."""
    begins: tuple[Begin, ...] = ()
    """The effect ledger."""
    journals: Mapping[TaskKey, tuple[str, ...]] = {}
    """For tasks that append their id to a file in the workspace: what they read back from it."""
    unseen: int = 0
    """Places of the state streams of which nobody knows what was stored there: overwritten before it was read."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that must not be, with its evidence."""

    kind: str
    """Field of `Verdict` that counts it."""
    subject: str
    """`<tenant>/<session>` or `<tenant>/<session>/<task>`."""
    what: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the checker says of a history. Each count is of findings, not of tasks."""

    accepted: int
    """Tasks that were surely accepted."""
    finished: int
    """Tasks that have a result."""
    lost: int = 0
    """Accepted and without a result; a result that was stored and is no more; work of a task that is gone from the
    workspace though nobody said so."""
    doubled: int = 0
    """A second result of a task; a task that ran again after its result, or twice under one epoch; its work twice in
    the workspace."""
    disordered: int = 0
    """Results, or work in the workspace, in another order than the tasks were accepted; a position that went back."""
    failed: int = 0
    """Results of a status that was not expected."""
    quarantined: int = 0
    """Sessions or tasks that ended as poison, where that was not expected."""
    stale: int = 0
    """Writes that a fence should have refused: under a lower epoch than one stored before, by a second owner of an
    epoch, after the session's end, or a result of another epoch than the record that was stored with it."""
    unknown: int = 0
    """Tasks whose publish got no answer and that never showed up, and `unseen` places: neither good nor bad."""
    findings: tuple[Finding, ...] = ()
    """The first of each kind."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not any(self.counts().values())

    def counts(self) -> dict[str, int]:
        """Return what must be zero."""
        return {kind: getattr(self, kind) for kind in KINDS}

    def explain(self) -> str:
        """Return the verdict in words, for an assertion's message."""
        head = f"{self.accepted} accepted, {self.finished} finished, {self.unknown} unknown"
        bad = ", ".join(f"{count} {kind}" for kind, count in self.counts().items() if count)
        lines = [f"{one.kind}: {one.subject}: {one.what}" for one in self.findings]
        return "\n".join([f"{head}; {bad or 'nothing found'}", *lines])


KINDS = ("lost", "doubled", "disordered", "failed", "quarantined", "stale")
