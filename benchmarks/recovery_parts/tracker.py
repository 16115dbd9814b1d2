"""Which sessions a fault hit, when the system noticed, and when each had gone on: from what the streams stored. Pure.

Times are the caller's, on the clock of whoever injects the faults.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from shared.messages import TaskResult
from shared.record import ENDED, Record

SessionKey = tuple[str, str]
"""(tenant, session)."""


@dataclass
class Hit:
    """A session whose owner a fault has taken."""

    kind: str
    """Of the fault: `kill`, `node`."""
    session: SessionKey
    epoch: int
    """Under which the victim owned it."""
    at_s: float
    """When the fault was done."""
    task: str | None
    """The task that was in hand, as the fault's victim said last; None: the session was idle."""
    detected_s: float | None = None
    """When a record with a higher epoch was stored."""
    recovered_s: float | None = None
    """When the first result under a higher epoch was stored."""
    ended: bool = False
    """The session ended before it had to go on."""

    @property
    def detect_s(self) -> float | None:
        """From the fault to the revocation."""
        return None if self.detected_s is None else self.detected_s - self.at_s

    @property
    def recover_s(self) -> float | None:
        """From the fault to the first acknowledged step under a new epoch."""
        return None if self.recovered_s is None else self.recovered_s - self.at_s


@dataclass
class Tracker:
    """Follows records and results; told of faults, it says what became of the sessions that they hit."""

    hits: list[Hit] = field(default_factory=list)
    losses: int = 0
    """Results that say that a workspace was lost."""
    _records: dict[SessionKey, Record] = field(default_factory=dict)
    _open: dict[SessionKey, list[Hit]] = field(default_factory=lambda: defaultdict(list))

    def fault(self, kind: str, at_s: float, *, victims: dict[str, str | None]) -> list[Hit]:
        """Note a fault.

        Args:
            kind: of the fault.
            at_s: when it was done.
            victims: workers that it took, each with the task that it ran, as it said last.
        """
        hit = [
            Hit(kind, key, record.epoch, at_s, victims[record.owner])
            for key, record in self._records.items()
            if record.state == "running" and record.owner in victims
        ]
        for one in hit:
            self._open[one.session].append(one)
        self.hits += hit
        return hit

    def on_record(self, record: Record, at_s: float) -> None:
        """Take in a record as it was stored."""
        key = (record.tenant, record.session)
        known = self._records.get(key)
        if known is not None and record.epoch < known.epoch:
            return  # read late: a newer one was heard before
        self._records[key] = record
        for hit in list(self._open.get(key, ())):
            if hit.detected_s is None and record.epoch > hit.epoch:
                hit.detected_s = at_s
            if record.state in ENDED:
                if hit.recovered_s is None:
                    hit.ended = True
                self._open[key].remove(hit)
        if record.state in ENDED:
            del self._records[key]

    def on_result(self, result: TaskResult, at_s: float) -> None:
        """Take in a result as it was stored."""
        self.losses += result.workspace_lost is not None
        for hit in list(self._open.get((result.tenant, result.session), ())):
            if result.epoch > hit.epoch:
                hit.recovered_s = at_s
                self._open[hit.session].remove(hit)

    def node_of(self, node: str) -> list[str]:
        """Return the owners that are on a node."""
        return [
            record.owner
            for record in self._records.values()
            if record.state == "running" and record.node == node and record.owner is not None
        ]

    def in_task(self, kind: str) -> list[Hit]:
        """Return the hits of a kind that struck a task in hand and had to be mended."""
        return [
            hit for hit in self.hits if hit.kind == kind and hit.task is not None and not hit.ended
        ]
