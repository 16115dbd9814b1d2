"""A task's times: how and when it came into the hands of the worker that ran it, said at its start and in its result."""

from __future__ import annotations

import structlog
from holding import SESSION, FakeSandbox, FakeTruth, FakeVoice, body, entry, hold, owned

from shared import transitions
from shared.messages import Timing
from shared.record import Record
from shared.service import Stop
from worker_agent.core.work import Taken
from worker_agent.ports import Entry, Held

TAKEN = Taken(path="warm", delivered_ms=1.25, claimed_ms=2.5)


class LateTruth(FakeTruth):
    """Each look at the inbox first puts into it what `late` has for it."""

    def __init__(self) -> None:
        """Have nothing."""
        super().__init__()
        self.late: list[list[Entry]] = []

    async def next_entry(self, record: Record, after_seq: int) -> Entry | None:
        """Return what follows."""
        self.inbox += self.late.pop(0) if self.late else []
        return await super().next_entry(record, after_seq)


def timings(truth: FakeTruth, voice: FakeVoice) -> list[Timing]:
    """Return the times of each task that started, which its event and its result agree on."""
    said = []
    for task, event, details in voice.events:
        if event != "started":
            continue
        timing: Timing = details["timing"]
        stored = truth.results[task].timing
        assert (timing.path, timing.delivered_ms, timing.claimed_ms, timing.started_ms) == (
            stored.path, stored.delivered_ms, stored.claimed_ms, stored.started_ms,
        )  # fmt: skip
        assert details["at_ms"] == timing.started_ms
        said.append(timing)
    return said


async def test_the_first_task_says_how_its_worker_was_got_and_the_next_ones_that_it_was_there() -> (
    None
):
    """What brought the session brought one task; the others are the bound worker's."""
    truth, voice = FakeTruth(), FakeVoice()
    held = owned(truth, body(keep=True))
    held.taken = TAKEN
    truth.inbox = [entry(1)]
    await hold(truth, FakeSandbox(), held, Stop(), voice=voice)

    first, second = timings(truth, voice)
    assert (first.path, first.delivered_ms, first.claimed_ms) == ("warm", 1.25, 2.5)
    assert second.path == "bound"
    assert first.started_ms <= second.delivered_ms == second.claimed_ms <= second.started_ms


async def test_what_woke_a_session_says_how_its_worker_was_got() -> None:
    """The session's first task was done long before; an entry that has its result already does not count."""
    truth, voice = FakeTruth(), FakeVoice()
    held = owned(truth, body(keep=True))
    await hold(truth, FakeSandbox(), held, Stop())
    truth.inbox = [entry(1), entry(2)]
    truth.results[entry(1).task] = truth.results[SESSION]
    claim_again(truth, held)
    await hold(truth, FakeSandbox(), held, Stop(), voice=voice)

    (only,) = timings(truth, voice)
    assert (only.path, only.claimed_ms) == ("warm", 2.5)


async def test_a_task_that_the_worker_has_waited_for_is_not_what_it_was_got_for() -> None:
    """A token of what is over brings a worker to an empty inbox; what comes seconds later did not wait for it."""
    truth, voice = LateTruth(), FakeVoice()
    held = owned(truth, body(keep=True))
    await hold(truth, FakeSandbox(), held, Stop())
    claim_again(truth, held)
    truth.late = [[], [entry(1)]]
    await hold(truth, FakeSandbox(), held, Stop(), voice=voice)

    (only,) = timings(truth, voice)
    assert only.path == "bound"


def claim_again(truth: FakeTruth, held: Held) -> None:
    """Let the worker own the session once more, got in the way of `TAKEN`."""
    queued = transitions.wake(truth.record, lane="interactive")
    held.record = transitions.claim(queued, owner="w", node="n", now_ms=1)
    held.seq, held.taken = truth.put(held.record), TAKEN


async def test_a_committed_attempt_is_one_line_with_all_its_durations() -> None:
    """Whoever looks for the slow ones needs no other."""
    truth = FakeTruth()
    held = owned(truth, body(keep=False))
    held.taken = TAKEN
    with structlog.testing.capture_logs() as lines:
        await hold(truth, FakeSandbox(), held, Stop())

    (line,) = [line for line in lines if line["event"] == "task.committed"]
    assert (line["session_id"], line["status"], line["attempt"]) == (SESSION, "ok", 1)
    assert (line["path"], line["claim_ms"]) == ("warm", 1.2)
    assert line.keys() >= {"start_ms", "run_ms", "commit_ms"}
