"""Jobs at the desk: under one id once, one pod's after one another, each within its time, and not too many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from checkpointer.loops.serve import Desk
from checkpointer.ports.engine import Progress
from shared.errors import StaleEpoch
from shared.limits import CHECKPOINT_JOBS_MAX
from shared.testing.wait import until
from shared.workspace import CheckpointAnswer, CheckpointAsk, SnapshotRef

POD = "default-0-1"
SNAPSHOT = SnapshotRef(id="a" * 64, pack="t/session-1/pack", at_ms=1)


def asking(number: int = 1, *, pod: str = POD, op: str = "save", **more: object) -> CheckpointAsk:
    """Return an ask under an id of its own."""
    ask = CheckpointAsk(
        job=f"job-{number:06}", op="save", tenant="t", pool="default", session="session-1", epoch=1, pod=pod
    )  # fmt: skip
    return msgspec.structs.replace(ask, op=op, **more)


class Bench:
    """Work that ends when the test says so."""

    def __init__(self) -> None:
        self.begun: list[CheckpointAsk] = []
        self.at_once = 0
        self.most_at_once = 0
        self.end = asyncio.Event()
        self.fail: Exception | None = None

    async def __call__(self, ask: CheckpointAsk, progress: Progress) -> SnapshotRef:
        """Do it, once the test says so."""
        self.begun.append(ask)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.end.wait()
        finally:
            self.at_once -= 1
        if self.fail is not None:
            raise self.fail
        return SNAPSHOT


@pytest.fixture
def bench() -> Bench:
    """The work of this test."""
    return Bench()


@pytest.fixture
async def desk(bench: Bench) -> AsyncIterator[Desk]:
    """A desk that hands out the bench's work."""
    async with asyncio.TaskGroup() as tasks:
        made = Desk(bench, tasks)
        yield made
        bench.end.set()
        await made.drain(0)


async def until_end(desk: Desk, ask: CheckpointAsk) -> CheckpointAnswer:
    """Ask until the job has ended."""
    async with asyncio.timeout(10):
        while True:
            answer = await desk.answer(ask.pod, ask)
            if answer.state in ("done", "failed"):
                return answer


async def test_a_job_is_begun_once_however_often_it_is_asked_for(desk: Desk, bench: Bench) -> None:
    """Twice at once, and again when it has ended: the same answer each time."""
    first = asyncio.create_task(until_end(desk, asking()))
    second = asyncio.create_task(until_end(desk, asking()))
    await until(lambda: bool(bench.begun))
    bench.end.set()
    answers = {(a.state, a.snapshot) for a in (await first, await second)}
    answers.add((a := await until_end(desk, asking())) and (a.state, a.snapshot))

    assert answers == {("done", SNAPSHOT)}
    assert len(bench.begun) == 1


async def test_an_answer_says_the_next_state_as_soon_as_it_is_reached(
    desk: Desk, bench: Bench
) -> None:
    """`scanned` lets user code go on: nobody waits for the rest of a second for it."""
    reach: asyncio.Future[Progress] = asyncio.get_running_loop().create_future()

    async def work(_ask: CheckpointAsk, progress: Progress) -> SnapshotRef:
        reach.set_result(progress)
        await bench.end.wait()
        return SNAPSHOT

    async with asyncio.TaskGroup() as tasks:
        own = Desk(work, tasks)
        asked = asyncio.create_task(own.answer(POD, asking()))
        progress = await reach
        assert not asked.done()
        progress.reach("scanned")
        assert (await asked).state == "scanned"
        again = asyncio.create_task(own.answer(POD, asking(knows="scanned")))
        bench.end.set()
        assert (await again).state == "done"


async def test_an_answer_says_why_the_store_keeps_the_job_waiting(bench: Bench) -> None:
    """From the first one on, not once the job has given up a minute later; one that is done has waited."""
    why = ["no route to it"]
    async with asyncio.TaskGroup() as tasks:
        own = Desk(bench, tasks, lambda: why[0])
        first = await own.answer(POD, asking())
        bench.end.set()
        last = await until_end(own, asking(knows="running"))

    assert (first.state, first.waits) == ("running", "no route to it")
    assert (last.state, last.waits) == ("done", "")


async def test_jobs_of_one_pod_follow_one_another(desk: Desk, bench: Bench) -> None:
    """Two snapshots of one workspace at once would read each other's half-written state; other pods do not wait."""
    asks = [asking(1), asking(2), asking(3, pod="default-1-1")]
    ends = [asyncio.create_task(until_end(desk, ask)) for ask in asks]
    await until(lambda: len(bench.begun) >= 2)
    await asyncio.sleep(0.05)
    assert {ask.pod for ask in bench.begun} == {POD, "default-1-1"}
    bench.end.set()
    assert {(await end).state for end in ends} == {"done"}
    assert bench.most_at_once == 2


async def test_who_only_looks_waits_for_no_job(desk: Desk, bench: Bench) -> None:
    """A worker that died in mid-save left one: its recovery wants to know what is there, not to save it."""
    saving = asyncio.create_task(until_end(desk, asking(1)))
    await until(lambda: len(bench.begun) == 1)

    looking = asyncio.create_task(desk.answer("rescue", asking(2, op="look")))
    await until(lambda: len(bench.begun) == 2)
    bench.end.set()

    assert {(await saving).state, (await looking).state} == {"done"}
    assert bench.most_at_once == 2


async def test_a_job_ends_by_itself_after_its_askers_time(desk: Desk) -> None:
    """Nobody waits for it any more, and it would hold a turn."""
    answer = await until_end(desk, asking(left_s=0.05))

    assert answer.error is not None
    assert (answer.state, answer.error.code) == ("failed", "unavailable")


@pytest.mark.parametrize(
    ("asker", "ask", "code"),
    [
        ("default-9-1", asking(), "forbidden"),
        (POD, asking(op="rescue"), "forbidden"),
        (POD, asking(op="look"), "forbidden"),
        ("rescue", asking(), "forbidden"),
        (POD, asking(op="restore"), "invalid_message"),
    ],
)
async def test_what_nobody_may_ask_is_not_begun(
    desk: Desk, bench: Bench, asker: str, ask: CheckpointAsk, code: str
) -> None:
    """A worker asks about its own pod alone, pool-managers for rescues alone; a restore names its snapshot."""
    answer = await desk.answer(asker, ask)

    assert answer.error is not None
    assert (answer.state, answer.error.code) == ("failed", code)
    assert bench.begun == []


async def test_an_id_belongs_to_one_job(desk: Desk, bench: Bench) -> None:
    """Who asks for something else under it gets no foreign snapshot."""
    bench.end.set()
    assert (await until_end(desk, asking())).state == "done"
    other = await desk.answer(POD, asking(epoch=2))

    assert other.error is not None
    assert other.error.code == "conflict"


async def test_what_failed_says_why(desk: Desk, bench: Bench) -> None:
    """By the error's own code, a bug of ours included: nothing waits for ever."""
    bench.end.set()
    bench.fail = StaleEpoch("not yours")
    stale = await until_end(desk, asking(1))
    bench.fail = ValueError("ours")
    bug = await until_end(desk, asking(2))

    assert stale.error is not None
    assert bug.error is not None
    assert (stale.error.code, bug.error.code) == ("stale_epoch", "bug")


async def test_too_many_jobs_are_refused_for_now(bench: Bench) -> None:
    """The bound is on what waits and runs; ended ones make room."""
    async with asyncio.TaskGroup() as tasks:
        desk = Desk(bench, tasks)
        asks = [asking(n, pod=f"default-{n}-1") for n in range(CHECKPOINT_JOBS_MAX + 1)]
        waiting = [asyncio.create_task(desk.answer(ask.pod, ask)) for ask in asks[:-1]]
        await until(lambda: len(bench.begun) >= CHECKPOINT_JOBS_MAX)
        refused = await desk.answer(asks[-1].pod, asks[-1])
        bench.end.set()
        await asyncio.gather(*waiting)
        taken = await until_end(desk, asks[-1])

    assert refused.error is not None
    assert (refused.error.code, taken.state) == ("unavailable", "done")


async def test_who_leaves_ends_what_is_under_way_or_breaks_it_off(bench: Bench) -> None:
    """Nothing new is begun; what does not end in time says that it was not done."""
    async with asyncio.TaskGroup() as tasks:
        desk = Desk(bench, tasks)
        asked = asyncio.create_task(until_end(desk, asking()))
        await until(lambda: bool(bench.begun))
        await desk.drain(0.01)
        late = await desk.answer("default-1-1", asking(2, pod="default-1-1"))
    broken = await asked

    assert {a.error.code for a in (broken, late) if a.error} == {"draining"}
