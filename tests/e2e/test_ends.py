"""Cancels at each stage and deaths of every kind, on real workers: each task reaches its one end."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from agent_sandbox import Client
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import ProcessId
from agent_sandbox.embedded.table import read_table
from agent_sandbox.running import RunningTask
from shared import limits, subjects
from shared.bus import Bus
from shared.errors import ServiceError
from shared.ids import home
from shared.record import Record
from shared.testing.look import Look, until

SLEEP = "sleep 30"


@pytest.fixture
def look(truth: Bus) -> Look:
    """What the streams hold."""
    return Look(truth, "default")


async def owner_of(look: Look, session: str, *, not_epoch: int = 0) -> Record:
    """Wait until a worker runs the session under another epoch; return the record."""

    async def owned() -> Record | None:
        record = await look.record(session)
        found = record is not None and record.state == "running" and record.epoch != not_epoch
        return record if found else None

    record: Record = await until(owned, within_s=25.0)
    return record


def process_of(folder: Folder, worker: str) -> ProcessId:
    """Return a worker's process."""
    table = read_table(folder)
    assert table is not None
    found = find_worker(folder, worker, table.supervisor.pid)
    assert found is not None
    return found


# --- cancel ----------------------------------------------------------------------------------------------------------


async def running(client: Client) -> RunningTask:
    """Return a task whose user code runs."""
    task = await client.start(shell=SLEEP)
    await until(lambda: task.has_started, within_s=20.0)
    return task


async def just_published(client: Client) -> RunningTask:
    """Return a task that may be in its lane, claimed, or about to start."""
    return await client.start(shell=SLEEP)


async def behind_another(client: Client) -> RunningTask:
    """Return a task in the inbox of a session that runs another one."""
    session = await client.create_session()
    first = await session.start(SLEEP)
    await until(lambda: first.has_started, within_s=20.0)
    return await session.start(SLEEP)


async def of_a_session_that_nobody_knows(client: Client) -> RunningTask:
    """Return a task whose session has no record."""
    return await client.session(str(uuid.uuid4())).start(SLEEP)


STAGES: list[Callable[[Client], Awaitable[RunningTask]]] = [
    just_published,
    running,
    behind_another,
    of_a_session_that_nobody_knows,
]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
async def test_a_task_is_cancelled_at_each_stage(
    client: Client, stage: Callable[[Client], Awaitable[RunningTask]]
) -> None:
    """The answer comes when the result is stored; a second cancel says the same."""
    task = await stage(client)

    answer = await task.cancel()
    again = await client.cancel(task.task_id, session_id=task.session_id)

    result = await task.result(wait_s=10)
    assert (answer.outcome, answer.status) == ("cancelled", "cancelled")
    assert again.outcome == "cancelled"
    assert (result.status, result.reason) == ("cancelled", "requested")


async def test_a_cancel_before_the_publish_kills_the_publish(client: Client) -> None:
    """The task that comes later under that id is never run."""
    task_id = str(uuid.uuid4())
    answer = await client.cancel(task_id, pool="default")

    result = await client.run(["true"], task_id=task_id)

    assert answer.outcome == "cancelled"
    assert (result.status, result.raw.timing.started_ms) == ("cancelled", 0)


async def test_what_has_finished_has_finished(client: Client) -> None:
    """A cancel tells the status that is stored."""
    result = await client.run(["true"])

    answer = await client.cancel(result.task_id)

    assert (answer.outcome, answer.status) == ("finished", "ok")


async def test_a_task_whose_worker_hangs_is_cancelled_all_the_same(
    embedded: Folder, client: Client, look: Look
) -> None:
    """The owner cannot answer; it is given up, and what waits for another worker is ended."""
    task = await running(client)
    hung = process_of(embedded, (await owner_of(look, task.session_id)).owner or "")
    hung.send(signal.SIGSTOP)
    try:
        answer = await task.cancel(wait_s=30)
        result = await task.result(wait_s=10)
    finally:
        hung.send(signal.SIGCONT)

    assert answer.outcome == "cancelled"
    assert result.status == "cancelled"


# --- deaths ----------------------------------------------------------------------------------------------------------


async def test_a_task_that_kills_its_worker_three_times_is_poison(
    embedded: Folder, client: Client, look: Look
) -> None:
    """With the node alive. The body was stored before anybody read it, and ends among the dead letters."""
    task = await client.start(shell=SLEEP)
    epoch = 0
    for _ in range(limits.DEATHS_MAX):
        record = await owner_of(look, task.session_id, not_epoch=epoch)
        epoch = record.epoch
        process_of(embedded, record.owner or "").send(signal.SIGKILL)

    result = await task.result(wait_s=30)

    assert (result.status, result.reason) == ("poison", "deaths")
    assert [one.cause for one in result.raw.interruptions] == ["process_exit"] * limits.DEATHS_MAX
    assert (await look.in_state(task.session_id, "poison")).deaths == limits.DEATHS_MAX
    page = await client.dead_letters.list(limit=5)
    (row,) = (row for row in page.letters if row.letter.task == task.task_id)
    assert (row.letter.status, row.letter.attempts) == ("poison", limits.DEATHS_MAX)
    assert SLEEP.encode() in (await client.dead_letters.show(row.number)).body


async def test_elections_and_give_backs_are_no_deaths(client: Client, look: Look) -> None:
    """The message is handed out and given back again and again; the shards elect while the task runs."""
    lane = subjects.queue(0, "default", "cold", "interactive")
    session = str(uuid.uuid4())
    given_back: list[int] = []
    giving = asyncio.create_task(_give_back(look.bus, given_back, times=5))
    await look.bus.publish_acked(
        lane, b'{"kind": "command", "shell": "sleep 4"}', message_id=session
    )
    await owner_of(look, session)
    giving.cancel()
    await asyncio.wait({giving})
    for _ in range(3):
        for stream in (subjects.state_stream(home(session)), subjects.queue_stream(0)):
            await until(partial(_step_down, look.bus, stream), within_s=20.0)
        await asyncio.sleep(0.3)  # time for the vote

    async def ended() -> Record | None:
        record = await look.record(session)
        return record if record is not None and record.state == "closed" else None

    record: Record = await until(ended, within_s=25.0)
    result = await look.ended(session, session)
    assert result.status == "ok"
    assert given_back
    assert (record.deaths, record.epoch, result.attempt) == (0, 1, 1)


async def _step_down(bus: Bus, stream: str) -> bool:
    """Have a stream's leader ask for a vote; where there is none now, that is `Unavailable`."""
    await bus.js_api(f"STREAM.LEADER.STEPDOWN.{stream}", {}, timeout_s=5.0)
    return True


async def _give_back(bus: Bus, given_back: list[int], *, times: int) -> None:
    """Take a message of the pool `cold` and give it back, until a worker has it, or so often."""
    consumer = subjects.consumer("cold", "interactive")
    while len(given_back) < times:
        try:
            delivery = await bus.pull(subjects.queue_stream(0), consumer, expires_s=0.5)
        except ServiceError:
            await asyncio.sleep(0.05)
            continue
        if delivery is not None:
            await delivery.nak(0.0)
            given_back.append(delivery.stream_seq)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_task_whose_nodes_die_under_it_is_no_poison(
    embedded: Folder, client: Client, look: Look
) -> None:
    """More often than a poison may kill its workers; then it runs to its end."""
    task = await client.start(shell="sleep 6; echo done")
    epoch, killed = 0, 0
    while killed <= limits.DEATHS_MAX:
        record = await owner_of(look, task.session_id, not_epoch=epoch)
        epoch = record.epoch
        table = read_table(embedded)
        assert table is not None
        (row,) = (row for row in table.rows if row.name == record.node)
        assert row.process is not None
        row.process.send(signal.SIGKILL)
        killed += 1

    result = await task.result(wait_s=60)

    assert (result.status, result.stdout) == ("ok", "done\n")
    assert len(result.raw.interruptions) == killed
    assert (await look.record(task.session_id)).deaths == 0  # type: ignore[union-attr]  # it is there
