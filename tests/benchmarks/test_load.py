"""Load keeps its schedule whatever becomes of the calls, and lost calls are not lost from the figures."""

from __future__ import annotations

import asyncio
import math
import time

import pytest
from harness.load import GIVE_UP_S, Call, check_calls, open_loop, task_id
from harness.observe import Heard
from harness.running import CannotMeasure
from harness.stages import STAGES, is_warm, split, stage_rows

from shared.files import Stream
from shared.ids import parse_task_id
from shared.messages import TaskResult, Timing

S_NS = 1_000_000_000
MS_NS = 1_000_000
NOON_NS = 1_800_000_000 * S_NS


def _call(number: int = 0, *, tti_ms: float = 8.0, **result: object) -> Call:
    """A call that was accepted after 1 ms, pulled after 3, started after 7 and had its result after 12."""
    task = f"task-{number:04d}"
    fields = {
        "task": task, "session": task, "tenant": "default", "status": "ok", "worker": "pod-1", "attempt": 1,
        "stdout": Stream(text=f"{NOON_NS + int(tti_ms * MS_NS)}\n"),
        "timing": Timing(accepted_ms=NOON_NS // MS_NS + 1, delivered_ms=NOON_NS / MS_NS + 3, started_ms=NOON_NS / MS_NS + 7.25),
    } | result  # fmt: skip
    return Call(
        task=task, due_ns=NOON_NS - MS_NS, called_ns=NOON_NS, heard_ns=NOON_NS + 12 * MS_NS,
        result=TaskResult(**fields),  # type: ignore[arg-type]  # a bag of fields of a test
    )  # fmt: skip


def _heard(*calls: Call) -> Heard:
    return Heard(
        bells={call.task: NOON_NS + MS_NS for call in calls},
        records={call.task: NOON_NS + 5 * MS_NS for call in calls},
    )


async def test_slow_answers_do_not_thin_the_load_out() -> None:
    """Calls that take fifty times their distance are begun on time all the same."""
    begun: list[float] = []

    async def slow(_call: Call) -> None:
        begun.append(time.monotonic())
        await asyncio.sleep(0.5)

    began = time.monotonic()
    calls = await open_loop(20, 100, slow)

    assert len(begun) == len(calls) == 20
    assert time.monotonic() - began < 20 * 0.5
    assert [(call.due_ns - calls[0].due_ns) / S_NS for call in calls] == pytest.approx(
        [n / 100 for n in range(20)]
    )
    assert min(at - began for at in begun[-1:]) >= 0.19
    assert len({parse_task_id(call.task) for call in calls}) == 20


async def test_a_burst_is_due_at_once() -> None:
    """An infinite rate leaves no distance."""

    async def call(_call: Call) -> None:
        return

    calls = await open_loop(5, math.inf, call)

    assert len({call.due_ns for call in calls}) == 1


def test_a_call_counts_from_its_begin_and_from_its_schedule() -> None:
    """The caller itself was 1 ms late: the second number has it."""
    assert _call().tti_ms == pytest.approx(8)
    assert _call().from_schedule_ms == pytest.approx(9)


@pytest.mark.parametrize("text", ["", "no number\n", "\n"])
def test_a_task_that_printed_no_time_counts_as_slow_as_the_wait_for_it(text: str) -> None:
    """Leaving it out would make the rest look well."""
    call = _call(stdout=Stream(text=text), status="failed", reason="signal")

    assert call.tti_ms == GIVE_UP_S * 1000
    assert "failed signal" in call.why_lost()
    assert Call(task=task_id(1), due_ns=0, error="unavailable: x").why_lost() == "unavailable: x"


def test_too_many_lost_calls_are_no_measurement() -> None:
    """The first one's reason is told."""
    lost = Call(task=task_id(1), due_ns=0, error="not_found: no such pool")

    assert check_calls([_call(), lost]) == [_call()]
    with pytest.raises(CannotMeasure, match=r"2 of 3 tasks .* no such pool"):
        check_calls([_call(), lost, lost])


def test_the_stages_make_up_the_time_to_the_first_instruction() -> None:
    """Bell, pull, record, hand-over and first instruction lie one after another without a gap."""
    call = _call()
    stages = split(call, _heard(call))

    assert stages is not None
    assert stages == pytest.approx((1.0, 2.0, 2.0, 2.25, 0.75, 4.0), abs=0.001)
    assert sum(stages[:5]) == pytest.approx(call.tti_ms, abs=0.001)


@pytest.mark.parametrize(
    "call",
    [
        _call(attempt=2),
        _call(stdout=Stream(text="")),
        _call(timing=Timing()),
        Call(task="x", due_ns=0),
    ],
)
def test_a_call_without_all_moments_has_no_stages(call: Call) -> None:
    """Half a way would shift all means."""
    assert split(call, _heard(call)) is None


def test_the_tail_is_made_of_the_slowest_calls() -> None:
    """Of 200 calls the slowest two are shown, and what made them slow."""
    calls = [_call(number, tti_ms=8.0 if number < 198 else 108.0) for number in range(200)]

    rows = {row.stage: row for row in stage_rows(calls, _heard(*calls))}

    assert list(rows) == list(STAGES)
    assert rows["begin"].slowest_ms == pytest.approx(100.75, abs=0.001)
    assert rows["begin"].all.p50 == pytest.approx(0.75, abs=0.001)
    assert rows["pull"].slowest_ms == pytest.approx(2.0, abs=0.001)
    assert stage_rows(calls, Heard()) == []


@pytest.mark.parametrize(
    ("first_beat_ms", "warm"), [(-5000, True), (0, True), (2.5, False), (40, False), (None, False)]
)
def test_a_start_is_warm_when_its_worker_was_heard_before_the_task(
    first_beat_ms: float | None, warm: bool
) -> None:
    """A worker that came later was waited for; one that was never heard is not taken for warm."""
    heard = Heard(
        workers={} if first_beat_ms is None else {"pod-1": NOON_NS + int(first_beat_ms * MS_NS)}
    )

    assert is_warm(_call(), heard) is warm
