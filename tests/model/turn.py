"""One state and the steps that lead out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.model.draft import Draft
from tests.model.effects import whole
from tests.model.records import WORKERS, Book, holds
from tests.model.rules import Broken, Rules, Scenario
from tests.model.state import State, Worker

from shared.errors import Conflict, StaleEpoch
from shared.record import Hold

Effect = Callable[[Draft], None]


class Step(NamedTuple):
    """What may happen next."""

    label: str
    fair: bool
    """It happens in the end if nothing else does; faults and clients are not to be relied on."""
    after: State | Broken


class Turn:
    """Collects the steps out of one state; the modules of the actors offer them."""

    def __init__(self, state: State, scenario: Scenario, rules: Rules, book: Book) -> None:
        """Look at `state`."""
        self.state = state
        self.scenario = scenario
        self.rules = rules
        self.book = book
        self.steps: list[Step] = []
        self._keeps_workspaces = (
            not scenario.snapshots
            or scenario.relaxed
            or scenario.budget.rescue > 0
            or not rules.commit_by_cas
            or rules.refused_commit_restores != "boundary"
            or rules.unanswered_claim == "won"
        )

    def step(self, label: str, effect: Effect, *, fair: bool = True) -> None:
        """Offer a step; `effect` makes it in a draft."""
        draft = Draft(
            self.state,
            self.book,
            self.rules,
            self.scenario,
            keeps_workspaces=self._keeps_workspaces,
        )
        after: State | Broken
        try:
            effect(draft)
            check(draft, self.scenario)
            after = draft.freeze()
        except Broken as broken:
            after = broken
        except (Conflict, StaleEpoch) as refusal:
            after = Broken(f"P0 the transitions refuse what the protocol does: {refusal}")
        self.steps.append(Step(label, fair, after))

    def fault(self, label: str, effect: Effect) -> None:
        """Offer a step that nobody may rely on."""
        self.step(label, effect, fair=False)

    def may_lose_answer(self) -> bool:
        """Whether the next write may go without an answer."""
        return self.state.budget.lost > 0 and self.state.late is None

    def owns(self, index: int, worker: Worker) -> bool:
        """Whether the record names this worker under the epoch that it believes in."""
        return holds(self.state.truth, Hold(WORKERS[index], worker.epoch))


def check(draft: Draft, scenario: Scenario) -> None:
    """Raise Broken where a property of single states does not hold."""
    results, truth = draft.results, draft.truth
    if scenario.snapshots and not scenario.relaxed:
        resumes = scenario.on_interrupt == "resume"
        held = whole(truth.boundary if truth else (), results, resumes=resumes)
        ok = tuple(task for task, result in enumerate(results) if result == "ok")
        if held != ok:
            raise Broken(f"P2 boundary holds {list(held)}, results ok are {list(ok)}")
    for task in draft.promised:
        if results[task] not in ("cancelled", "stopped"):
            raise Broken(
                f"P6 cancel of task {task} answered `cancelled`, its result is {results[task]}"
            )
    if truth is None:
        return
    uncovered = [task for task in range(1, truth.position + 1) if results[task] is None]
    if uncovered or (truth.record.first_done and results[0] is None):
        raise Broken(f"P11 position is {truth.position}, without a result: {uncovered or [0]}")
