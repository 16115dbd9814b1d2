"""The store of snapshots is slow, or can't be reached, while tasks run: that costs time only, and is said."""

from __future__ import annotations

import asyncio

import pytest
from checkpointing import Place, Sandbox, kept_session, writes
from holding import SESSION, entry

from shared.errors import Unavailable
from shared.testing.wait import until


async def test_what_the_store_does_is_nothing_to_a_running_task(place: Place) -> None:
    """It goes on; the heartbeat says why nothing is saved, and the next checkpoint is taken."""
    pod, truth = place.new_pod(), place.truth
    place.store.fault = Unavailable("the store does not answer")
    seen: list[str] = []

    async def runs_on(sandbox: Sandbox) -> None:
        sandbox.append("one")
        await until(lambda: pod.says[1] != "")
        seen.append(pod.says[1])
        place.store.fault = None
        await until(lambda: truth.record.latest is not None)

    pod.sandbox.programs = {SESSION: runs_on}
    await pod.hold(truth, kept_session(truth), checkpoint_every_s=0.01)

    assert seen == ["the store does not answer"]
    assert truth.results[SESSION].status == "ok"
    assert pod.sandbox.acts.count("freeze") == pod.sandbox.acts.count("thaw")


async def test_why_the_store_keeps_a_save_waiting_is_said_while_it_waits(place: Place) -> None:
    """Not once the job has given up, a minute later; and not any more once it goes on."""
    pod, truth = place.new_pod(), place.truth
    place.checkpointer.waits = "no route to the store"
    seen: list[tuple[str | None, str]] = []

    async def look() -> None:
        await until(lambda: pod.says[1] != "")
        seen.append(pod.says)
        place.checkpointer.waits = ""

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(look())
        await pod.hold(truth, kept_session(truth), checkpoint_every_s=3600)

    assert seen == [("saving", "no route to the store")]
    assert (truth.results[SESSION].status, pod.says) == ("ok", (None, ""))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("outage_s", [0.3, pytest.param(60.0, marks=pytest.mark.slow)])
async def test_an_outage_of_the_store_in_mid_run_costs_time_only(
    place: Place, outage_s: float
) -> None:
    """It begins in the middle of a task and ends after it: each task has its result and its line, once, in order."""
    pod, truth = place.new_pod(), place.truth
    tasks = [SESSION, *(f"task-{number:04d}" for number in range(1, 6))]
    truth.inbox = [entry(number) for number in range(1, 6)]
    loop = asyncio.get_running_loop()
    happened: list[str] = []

    def outage_ends() -> None:
        place.store.fault = None
        happened.append("the store is back")

    async def outage_begins(sandbox: Sandbox) -> None:
        place.store.fault = Unavailable("the store does not answer")
        loop.call_later(outage_s, outage_ends)
        await until(lambda: pod.says[1] != "")  # a checkpoint failed; it runs on
        sandbox.append(tasks[2])
        happened.append("the task ends")

    async def next_begins(sandbox: Sandbox) -> None:
        happened.append("the next one begins")
        sandbox.append(tasks[3])

    pod.sandbox.programs = {task: writes(task) for task in tasks}
    pod.sandbox.programs |= {tasks[2]: outage_begins, tasks[3]: next_begins}
    await pod.hold(truth, kept_session(truth), checkpoint_every_s=0.05, within_s=outage_s + 20)

    assert list(truth.results) == tasks
    assert {result.status for result in truth.results.values()} == {"ok"}
    assert truth.record.boundary is not None
    saved = place.store.snapshots[truth.record.boundary.id]["journal"]
    assert saved.splitlines() == tasks
    assert (truth.record.losses, truth.record.checkpoint_stale_ms) == (0, 0)
    assert happened == ["the task ends", "the store is back", "the next one begins"]
