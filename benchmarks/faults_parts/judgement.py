"""What the streams say in the end of each story: one result for each task, in order, and no more interruptions than told."""

from __future__ import annotations

from collections.abc import Sequence

from faults_parts.drive import DEATHS, Outcome
from shared.messages import TaskResult
from shared.testing.checker import judge
from shared.testing.history import Accepted, History, TaskKey
from shared.testing.recorder import Recorder

SANDBOX_LOST = "worker.run_task.run:answer_lost"
INTERRUPTIONS_MAX = 1
"""Of a task, for each fault that was placed."""


async def judge_all(recorder: Recorder, outcomes: Sequence[Outcome]) -> None:
    """Read everything once, and enter into each outcome what is wrong with it."""
    accepted = tuple(one for outcome in outcomes for one in _accepted(outcome))
    history = await recorder.history(accepted)
    for outcome in outcomes:
        own = of_tenant(history, outcome.cast.tenant)
        verdict = judge(own)
        if not verdict.ok:
            outcome.wrong.append(verdict.explain())
        bound = INTERRUPTIONS_MAX * len(outcome.scenario.all_faults) + (
            DEATHS if outcome.scenario.story == "poison" else 0
        )
        for one in own.outcomes:
            if len(one.result.interruptions) > bound:
                causes = [each.cause for each in one.result.interruptions]
                outcome.wrong.append(f"task {one.result.task} was interrupted by {causes}")


def _accepted(outcome: Outcome) -> list[Accepted]:
    tenant = outcome.cast.tenant
    # A sandbox that ends in the middle of a task ends that task, and the result says so.
    lost = any(str(fault) == SANDBOX_LOST for fault in outcome.scenario.all_faults)
    also = ("failed",) if lost else ()
    return [
        Accepted(tenant=tenant, session=one.session, task=one.task, expect=(*one.statuses, *also))
        for one in outcome.cast.expected.values()
    ]


def of_tenant(history: History, tenant: str) -> History:
    """Return one tenant's part of a history."""
    outcomes = tuple(one for one in history.outcomes if one.result.tenant == tenant)
    kept = {one.at for one in outcomes} & history.kept
    return History(
        accepted=tuple(one for one in history.accepted if one.tenant == tenant),
        versions=tuple(one for one in history.versions if one.record.tenant == tenant),
        outcomes=outcomes,
        kept=frozenset(kept),
        begins=tuple(one for one in history.begins if one.tenant == tenant),
        journals=dict(_journal(one.result) for one in outcomes if one.result.stdout.text),
    )


def _journal(result: TaskResult) -> tuple[TaskKey, tuple[str, ...]]:
    """Return what a task read back from its workspace."""
    key = (result.tenant, result.session, result.task)
    return key, tuple(result.stdout.text.split())
