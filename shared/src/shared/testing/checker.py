"""The judge: says of a run's history what in it must not be. Pure; knows the promises, not how they are kept.

It does not trust the services: what they say of themselves in logs is not looked at. Version orders are known (stream
sequences), tokens are unique (TaskIds), so nothing has to be searched for: it takes time in proportion to the history.

    history = await recorder.history(accepted)
    verdict = judge(history)
    assert verdict.ok, verdict.explain()
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from shared.record import ENDED
from shared.testing.history import (
    KINDS,
    Accepted,
    Begin,
    Finding,
    History,
    Outcome,
    TaskKey,
    Verdict,
    Version,
)

FINDINGS_KEPT = 5
"""Of each kind."""
RAN = frozenset({"ok", "failed", "interrupted"})
"""Statuses of results that an owner gives in its turn; the others may come at any time."""

SessionKey = tuple[str, str]
"""(tenant, session)."""
_Seen = TypeVar("_Seen", Version, Outcome)


def judge(history: History) -> Verdict:
    """Judge a history after the load has been drained: whatever has no result by then counts as lost."""
    return _Judge(history).verdict()


class _Judge:
    """One judgement."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._counts: Counter[str] = Counter()
        self._findings: list[Finding] = []
        self._accepted = _merge(history.accepted)
        self._outcomes: dict[TaskKey, list[Outcome]] = defaultdict(list)
        for outcome in _in_order(history.outcomes):
            self._outcomes[outcome.key].append(outcome)
        self._versions: dict[tuple[str, SessionKey], list[Version]] = defaultdict(list)
        """By pool and session: an id that was published in two pools has two records."""
        for version in _in_order(history.versions):
            record = version.record
            self._versions[record.pool, (record.tenant, record.session)].append(version)

    def verdict(self) -> Verdict:
        """Look at everything."""
        self._check_results()
        self._check_order()
        self._check_records()
        self._check_batches()
        self._check_begins(self._history.begins)
        self._check_journals()
        known = [one for one in self._accepted.values() if one.certain or one.key in self._outcomes]
        return Verdict(
            accepted=len(known),
            finished=len(self._outcomes),
            unknown=self._history.unseen + len(self._accepted) - len(known),
            findings=tuple(self._findings),
            **{kind: self._counts[kind] for kind in KINDS},
        )

    def _find(self, kind: str, subject: Iterable[str], what: str) -> None:
        self._counts[kind] += 1
        if self._counts[kind] <= FINDINGS_KEPT:
            self._findings.append(Finding(kind, "/".join(subject), what))

    # --- results -----------------------------------------------------------------------------------------------------

    def _check_results(self) -> None:
        """Each accepted task has one result, of a status that was expected, and keeps it."""
        for key, task in self._accepted.items():
            if task.certain and key not in self._outcomes:
                self._find("lost", key, f"accepted (inbox sequence {task.seq}), no result")
        for key, outcomes in self._outcomes.items():
            if len(outcomes) > 1:
                self._find("doubled", key, f"results {_describe(outcomes)}")
            if not any(outcome.at in self._history.kept for outcome in outcomes):
                self._find("lost", key, f"its result {_describe(outcomes)} is no more")
            expect = self._accepted[key].expect if key in self._accepted else ()
            result = outcomes[-1].result
            if expect and result.status not in expect:
                kind = "quarantined" if result.status == "poison" else "failed"
                said = result.error.message if result.error else result.stderr.text[-200:]
                self._find(kind, key, f"{result.status} ({result.reason}): {said}")

    def _check_order(self) -> None:
        """An owner gives results in the order in which the tasks were accepted."""
        sessions: dict[SessionKey, list[tuple[int, Outcome]]] = defaultdict(list)
        for key, task in self._accepted.items():
            ran = [one for one in self._outcomes.get(key, ()) if one.result.status in RAN]
            if ran and (task.seq or task.task == task.session):
                sessions[key[:2]].append((task.seq, ran[0]))
        for session, tasks in sessions.items():
            tasks.sort(key=lambda item: item[0])
            for (before, first), (after, second) in itertools.pairwise(tasks):
                if first.at > second.at:
                    what = f"entry {after} ended at {second.at}, entry {before} at {first.at}"
                    self._find("disordered", session, what)

    # --- records -----------------------------------------------------------------------------------------------------

    def _check_records(self) -> None:
        """No version of a record undoes what an earlier one decided; it counts as many tasks as have results."""
        pools = Counter(session for _, session in self._versions)
        completed = Counter(
            key[:2] for key, outcomes in self._outcomes.items() if any(map(_by_owner, outcomes))
        )
        for (_, session), versions in self._versions.items():
            owners: dict[int, str] = {}
            for version in versions:
                self._check_owner(session, version, owners)
            for before, after in itertools.pairwise(versions):
                self._check_step(session, before, after)
            tasks_done, results = versions[-1].record.tasks_done, completed[session]
            if pools[session] == 1 and tasks_done != results:
                kind = "doubled" if tasks_done > results else "stale"
                what = f"its record counts {tasks_done} completed tasks, {results} have a result of an owner"
                self._find(kind, session, what)

    def _check_owner(self, session: SessionKey, version: Version, owners: dict[int, str]) -> None:
        record = version.record
        if record.owner is not None:
            first = owners.setdefault(record.epoch, record.owner)
            if first != record.owner:
                what = f"{record.owner} owns epoch {record.epoch} of {first} at {version.at}"
                self._find("stale", session, what)

    def _check_step(self, session: SessionKey, before: Version, after: Version) -> None:
        old, new = before.record, after.record
        where = f"{before.at} -> {after.at}"
        if new.epoch < old.epoch:
            what = f"epoch {old.epoch} -> {new.epoch} by {new.owner}, {where}"
            self._find("stale", session, what)
        if old.state in ENDED:
            self._find("stale", session, f"{old.state} -> {new.state}, {where}: it had ended")
        if new.position < old.position or new.tasks_done < old.tasks_done:
            what = f"position {old.position} -> {new.position}, tasks {old.tasks_done} -> {new.tasks_done}, {where}"
            self._find("disordered", session, what)

    def _check_batches(self) -> None:
        """A result of an owner was stored together with the record, which it held under the epoch that it names."""
        stored = {
            version.at: version.record for found in self._versions.values() for version in found
        }
        for key, outcomes in self._outcomes.items():
            for outcome in outcomes:
                shard, seq = outcome.at
                record = stored.get((shard, seq + 1))
                if record is None or not _by_owner(outcome):
                    continue
                of_it = (record.tenant, record.session) == key[:2]
                if not of_it or record.epoch != outcome.result.epoch:
                    what = f"result of epoch {outcome.result.epoch} at {outcome.at}, with it epoch {record.epoch}"
                    self._find("stale", key, what if of_it else f"{what} of {record.session}")

    # --- effects -----------------------------------------------------------------------------------------------------

    def _check_begins(self, begins: Sequence[Begin]) -> None:
        """User code runs once for each claim at most, and never again after its task's result."""
        for begin, times in Counter(begins).items():
            key = (begin.tenant, begin.session, begin.task)
            if times > 1:
                self._find("doubled", key, f"it began {times} times under epoch {begin.epoch}")
            epochs = [one.result.epoch for one in self._outcomes.get(key, ()) if _by_owner(one)]
            if epochs and begin.epoch > min(epochs):
                what = f"it began under epoch {begin.epoch}, after its result under {min(epochs)}"
                self._find("doubled", key, what)

    def _check_journals(self) -> None:
        """In a workspace stands the work of all tasks since the last loss that was told, once and in order."""
        sessions: dict[SessionKey, list[Outcome]] = defaultdict(list)
        for key, outcomes in self._outcomes.items():
            sessions[key[:2]].append(outcomes[0])
        for outcomes in sessions.values():
            expected: list[str] = []
            for outcome in sorted(outcomes, key=lambda one: one.at):
                if outcome.result.workspace_lost is not None:
                    expected = []
                if outcome.key in self._history.journals:
                    expected.append(outcome.result.task)
                    self._check_journal(outcome.key, expected)

    def _check_journal(self, key: TaskKey, expected: list[str]) -> None:
        found = list(self._history.journals[key])
        # A task without a journal of its own (it failed, say) may have written or not.
        found = [
            task for task in found if task in expected or (*key[:2], task) in self._history.journals
        ]
        if found == expected:
            return
        twice = [task for task, times in Counter(found).items() if times > 1]
        missing = [task for task in expected if task not in found]
        kind = "doubled" if twice else "lost" if missing else "disordered"
        what = f"its workspace holds {found[-8:]}, expected {expected[-8:]}; twice {twice[:3]}, missing {missing[:3]}"
        self._find(kind, key, what)


def _merge(accepted: Iterable[Accepted]) -> dict[TaskKey, Accepted]:
    """Return one entry for each task: what its publisher expects (it comes first), and what is known of it in all."""
    found: dict[TaskKey, Accepted] = {}
    for one in accepted:
        known = found.get(one.key, one)
        found[one.key] = replace(
            known, seq=max(known.seq, one.seq), certain=known.certain or one.certain
        )
    return found


def _in_order(seen: Iterable[_Seen]) -> list[_Seen]:
    """Return each once, in stream order."""
    return [one for _, one in sorted({one.at: one for one in seen}.items())]


def _by_owner(outcome: Outcome) -> bool:
    """Whether an owner gave the result, in one batch with the record; else a manager, for a task that nobody ran."""
    return bool(outcome.result.worker) and outcome.result.epoch > 0


def _describe(outcomes: Iterable[Outcome]) -> str:
    return ", ".join(
        f"{one.result.status} of {one.result.worker or 'a manager'} under epoch {one.result.epoch} at {one.at}"
        for one in outcomes
    )
