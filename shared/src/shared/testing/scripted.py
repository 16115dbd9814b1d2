"""Histories written by hand, by the record's own rules: what the checker must pass, and what tests then break."""

from __future__ import annotations

from typing import Any

from shared import transitions
from shared.messages import TaskResult
from shared.record import Death, Hold, Origin, Record
from shared.testing.history import Accepted, Begin, History, Outcome, Version

TENANT, POOL, SHARD = "acme", "p", 1
SILENT = Death(cause="heartbeats_missed", process_died=False)


class ScriptedSession:
    """Makes the history of one kept session by the record's own rules, one step after another."""

    def __init__(self, name: str = "session-1", seq: int = 1) -> None:
        """Accept and claim its first task; `seq` is where its stream begins."""
        self.name, self.seq, self.inbox = name, seq, 0
        self.accepted = [self._accept(name, 0)]
        self.versions: list[Version] = []
        self.outcomes: list[Outcome] = []
        self.begins: list[Begin] = []
        self.journals: dict[tuple[str, str, str], tuple[str, ...]] = {}
        self.workspace: list[str] = []
        self.claims = 0
        origin = Origin(session=name, tenant=TENANT, pool=POOL, lane="batch", accepted_ms=1)
        self.record = transitions.create(origin, owner=self.new_worker(), node="n", now_ms=1)
        self.store(self.record)

    def new_worker(self) -> str:
        """Return the name of the next worker."""
        self.claims += 1
        return f"worker-{self.claims}"

    def _accept(self, task: str, seq: int) -> Accepted:
        return Accepted(tenant=TENANT, session=self.name, task=task, seq=seq)

    @property
    def hold(self) -> Hold:
        """Of the present owner."""
        return Hold(self.record.owner or "", self.record.epoch)

    def store(self, record: Record) -> None:
        """A version is stored, whatever the rules say."""
        self.record = record
        self.versions.append(Version((SHARD, self.seq), record))
        self.seq += 1

    def send(self) -> str:
        """Accept the next task."""
        self.inbox += 1
        task = f"{self.name}-task-{self.inbox:04}"
        self.accepted.append(self._accept(task, self.inbox))
        return task

    def begin(self, task: str) -> None:
        """User code of it runs."""
        self.begins.append(Begin(TENANT, self.name, task, self.record.epoch))
        self.workspace.append(task)

    def result(self, task: str, **changes: Any) -> TaskResult:
        """Return its result by the present owner."""
        fields: dict[str, Any] = {
            "task": task, "session": self.name, "tenant": TENANT, "status": "ok", "epoch": self.record.epoch,
            "worker": self.record.owner or "", "workspace_lost": self.record.lost,
        }  # fmt: skip
        return TaskResult(**fields | changes)

    def commit(self, task: str, **changes: Any) -> None:
        """Its result and the record are stored in one batch."""
        self.journals[TENANT, self.name, task] = tuple(self.workspace)
        result = self.result(task, **changes)
        seq = next(one.seq for one in self.accepted if one.task == task)
        self.put(result)
        self.store(
            transitions.complete(
                self.record, self.hold, inbox_seq=seq or None, then="keep", now_ms=2
            )
        )

    def put(self, result: TaskResult) -> None:
        """A result is stored."""
        self.outcomes.append(Outcome((SHARD, self.seq), result))
        self.seq += 1

    def run(self, task: str) -> None:
        """Run it to its end."""
        self.begin(task)
        self.commit(task)

    def die(self) -> None:
        """The owner is revoked and another one claims; the workspace is gone, and the record says so."""
        self.store(transitions.revoke(self.record, death=SILENT, now_ms=3))
        self.store(transitions.claim(self.record, owner=self.new_worker(), node="n", now_ms=4))
        self.workspace = []

    def history(self, **changes: Any) -> History:
        """Return what is known; of each task the last result is kept."""
        fields: dict[str, Any] = {
            "accepted": tuple(self.accepted),
            "versions": tuple(self.versions),
            "outcomes": tuple(self.outcomes),
            "kept": frozenset({one.key: one.at for one in self.outcomes}.values()),
            "begins": tuple(self.begins),
            "journals": self.journals,
        }
        return History(**fields | changes)


def busy() -> ScriptedSession:
    """Return a session with four finished tasks, the third of them interrupted once."""
    session = ScriptedSession()
    session.run(session.name)
    session.run(session.send())
    third = session.send()
    session.begin(third)
    session.die()
    session.run(third)
    session.run(session.send())
    return session


def task_of(session: ScriptedSession, number: int) -> str:
    """Return the id of its task (0: the first)."""
    return session.accepted[number].task
