"""Where the time between a call and the first user instruction goes, and who was warm. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from harness.load import Call
from harness.observe import Heard
from harness.stats import Summary, largest, summarize

MS_NS = 1_000_000
STAGES = ("accept", "pull", "claim", "start", "begin", "tell")
MEANING = {
    "accept": "call -> the queue holds the task and rings",
    "pull": "bell -> a worker has pulled the task",
    "claim": "pulled -> the session's record is stored",
    "start": "record stored -> the runner hands over to user code",
    "begin": "handed over -> first user instruction",
    "tell": "first user instruction -> the caller has the result",
}


class Stages(NamedTuple):
    """One task's way, milliseconds. The first five make up its time to the first user instruction."""

    accept: float
    pull: float
    claim: float
    start: float
    begin: float
    tell: float


class StageRow(NamedTuple):
    """One stage over all tasks."""

    stage: str
    all: Summary
    slowest_ms: float
    """Its mean in the slowest hundredth of all tasks: which stage the tail consists of."""


def split(call: Call, heard: Heard) -> Stages | None:
    """Return the stages of one call; None where a moment is missing.

    A moment that was heard late by this process can make one stage longer and the next one shorter.
    """
    user_ns, result = call.user_ns, call.result
    bell_ns, record_ns = heard.bells.get(call.task), heard.records.get(call.task)
    if user_ns is None or result is None or bell_ns is None or record_ns is None:
        return None
    timing = result.timing
    if not timing.delivered_ms or not timing.started_ms or result.attempt > 1:
        return None
    moments = [
        call.called_ns,
        bell_ns,
        int(timing.delivered_ms * MS_NS),
        record_ns,
        int(timing.started_ms * MS_NS),
        user_ns,
        call.heard_ns,
    ]
    return Stages(*((after - before) / MS_NS for before, after in pairwise(moments)))


def stage_rows(calls: Sequence[Call], heard: Heard) -> list[StageRow]:
    """Return each stage's summary over the calls whose moments are all known; nothing where there are none."""
    known = [(call.tti_ms, stages) for call in calls if (stages := split(call, heard)) is not None]
    if not known:
        return []
    tail = largest([tti_ms for tti_ms, _ in known], 0.01)
    rows = []
    for index, stage in enumerate(STAGES):
        values = [stages[index] for _, stages in known]
        slowest = [values[position] for position in tail]
        rows.append(StageRow(stage, summarize(values), sum(slowest) / len(slowest)))
    return rows


def is_warm(call: Call, heard: Heard) -> bool:
    """Return whether a worker that already waited took the task.

    It did if it was heard before the task was accepted. One that was never heard counts as cold, so does a task
    without a result.
    """
    if call.result is None or not call.result.timing.accepted_ms:
        return False
    heard_ns = heard.workers.get(call.result.worker)
    return heard_ns is not None and heard_ns <= (call.result.timing.accepted_ms + 1) * MS_NS
