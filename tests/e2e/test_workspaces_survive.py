"""Sessions outlive what runs them, and their files with them: workers, nodes and checkpointers are killed in the middle."""

from __future__ import annotations

import asyncio
import signal
from typing import Any, NamedTuple

import pytest

from agent_sandbox import Client
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.companions import process_of
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import ProcessId, wait_gone
from agent_sandbox.embedded.table import read_table
from agent_sandbox.events import Output
from agent_sandbox.places import TENANT
from shared.bus import Bus, Message
from shared.messages import WorkerBeat, decode
from shared.record import Record
from shared.testing.look import Look, until
from shared.testing.names import unique

LINE = """
import os, time
attempt = int(os.environ["AGENT_SANDBOX_ATTEMPT"])
with open("log.txt", "a") as log:
    log.write(f"attempt {attempt}\\n")
print("written", flush=True)
while attempt == 1 and not os.path.exists("/nonexistent"):
    time.sleep(0.1)
print(open("log.txt").read(), end="")
"""
"""Appends a line; its first attempt then goes on for ever: only the death of its worker ends it."""


def worker_of(folder: Folder, record: Record) -> ProcessId:
    """Return the process of the session's worker."""
    table = read_table(folder)
    assert table is not None
    assert record.owner is not None
    found = find_worker(folder, record.owner, table.supervisor.pid)
    assert found is not None
    return found


async def kill_worker(folder: Folder, look: Look, session: str) -> Record:
    """Kill the session's worker, of which nothing is left; return the record as it owned it."""
    record = await look.in_state(session, "running")
    await end(await asyncio.to_thread(worker_of, folder, record))
    return record


async def end(victim: ProcessId) -> None:
    """Kill a process, and wait until it is gone."""
    assert victim.send(signal.SIGKILL)
    assert await asyncio.to_thread(wait_gone, [victim], 5.0) == []


@pytest.fixture
def look(truth: Bus) -> Look:
    """What the streams hold."""
    return Look(truth, TENANT)


async def until_written(task: Any) -> None:
    """Wait until the task's user code has written its line."""
    async with asyncio.timeout(20):
        async for event in task.events():
            if isinstance(event, Output) and b"written" in event.data:
                return


@pytest.mark.parametrize("when", ["before-the-next-task", "with-the-next-task-in-its-inbox"])
async def test_an_idle_session_whose_worker_is_killed_has_all_its_files(
    embedded: Folder, client: Client, look: Look, when: str
) -> None:
    """Also what a process in the background wrote after the last task, and whenever the next task comes: the dead pod's
    own files are saved, as long as nothing of that task had begun."""
    session = await client.create_session()
    late = unique("late")
    (
        await session.exec(
            f"echo kept > a.txt; (sleep 0.5; echo late > part; mv part {late}) > /dev/null 2>&1 &"
        )
    ).check()
    await until(lambda: list(embedded.path.rglob(late)))
    before = await look.in_state(session.id, "running")
    victim = await asyncio.to_thread(worker_of, embedded, before)
    if when == "before-the-next-task":
        await end(victim)
        task = await session.start(f"cat a.txt {late}")
    else:
        assert victim.send(signal.SIGSTOP)  # it takes nothing any more, and nobody misses it yet
        task = await session.start(f"cat a.txt {late}", on_interrupt="rerun")
        await end(victim)

    seen = (await task.result(wait_s=30)).check()

    assert seen.stdout.split() == ["kept", "late"]
    record = await look.record(session.id)
    assert record is not None
    assert record.epoch > before.epoch
    assert (record.losses, record.lost) == (0, None)
    await session.close()


class Rule(NamedTuple):
    """What becomes of a task whose worker dies after its first line."""

    name: Any
    status: str
    said: list[str]
    """By the attempt that ends."""
    kept: list[str]
    """In the file afterwards."""


@pytest.mark.parametrize(
    "rule",
    [
        Rule("rerun", "ok", ["attempt 2"], ["attempt 2"]),
        Rule("resume", "ok", ["attempt 1", "attempt 2"], ["attempt 1", "attempt 2"]),
        Rule("fail", "interrupted", [], ["attempt 1"]),
    ],
    ids=lambda rule: rule.name,
)
async def test_a_task_whose_worker_is_killed_goes_on_by_its_rule(
    embedded: Folder, client: Client, look: Look, rule: Rule
) -> None:
    """`rerun` leaves its line once, `resume` sees what it had written, after `fail` the next task does."""
    session = await client.create_session()
    (await session.exec("true")).check()
    task = await session.start(["python3", "-c", LINE], on_interrupt=rule.name)
    await until_written(task)
    await kill_worker(embedded, look, session.id)

    result = await task.result(wait_s=30)
    after = (await session.exec("cat log.txt")).check()

    assert result.status == rule.status
    assert [line for line in result.stdout.splitlines() if line.startswith("attempt")] == rule.said
    assert after.stdout.splitlines() == rule.kept
    assert [each.cause for each in result.raw.interruptions] == ["process_exit"]
    recovery = result.raw.recovery
    assert recovery is not None
    assert (recovery.rule, recovery.cause) == (rule.name, "process_exit")
    # What it had written is begun again (how much that was, it may have had no time to say), or all there.
    rolled_back = (None, len("attempt 1\n")) if rule.name == "rerun" else (0,)
    assert recovery.work_lost_bytes in rolled_back
    await session.close()


POOLS = '[[pool]]\nname = "default"\nstock = 3\n'


class Ground:
    """A cluster that may be broken, with a session in it."""

    def __init__(self, rough: Any) -> None:
        """Use the fixture `ground`."""
        self.rough = rough

    def companion(self, node: str) -> ProcessId:
        """Return the process of a node's checkpointer."""
        table = read_table(self.rough.folder)
        assert table is not None
        found = process_of(table.rows, f"{node}-checkpointer")
        assert found is not None
        return found


@pytest.fixture
async def ground(start_rough: Any) -> Ground:
    """Two nodes, each with its checkpointer."""
    return Ground(await start_rough(POOLS))


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_session_outlives_its_node(ground: Ground) -> None:
    """All of it is killed at once, checkpointer and all; the other one goes on from what was saved, and says what is lost."""
    rough = ground.rough
    async with rough.client() as client:
        session = await client.create_session()
        (await session.exec("seq 100000 > numbers.txt; sha256sum numbers.txt > sum.txt")).check()
        task = await session.start(["python3", "-c", LINE], on_interrupt="rerun")
        await until_written(task)
        record = await rough.look.in_state(session.id, "running")
        beside = ground.companion(record.node)
        await says_unsaved(rough.admin, record.owner)

        rough.send(record.node, signal.SIGKILL)
        assert await asyncio.to_thread(wait_gone, [beside], 5.0) == []
        result = await task.result(wait_s=60)
        whole = (await session.exec("sha256sum -c sum.txt; cat log.txt")).check()

        assert result.check().stdout.splitlines()[-1] == "attempt 2"
        recovery = result.raw.recovery
        assert recovery is not None
        assert recovery.work_lost_bytes == len("attempt 1\n")
        assert whole.stdout.splitlines() == ["numbers.txt: OK", "attempt 2"]
        after = await rough.look.record(session.id)
        assert after is not None
        assert after.node != record.node
        assert after.losses == 0


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_checkpointer_that_dies_in_mid_save_costs_time_only(
    ground: Ground, number: signal.Signals
) -> None:
    """The task's result waits for its files, which are saved by the next one; then its pod dies, and all is there."""
    rough = ground.rough
    async with rough.client() as client:
        session = await client.create_session()
        (await session.exec("true")).check()
        record = await rough.look.in_state(session.id, "running")
        task = await session.start(
            "head -c 80M /dev/urandom > big.bin; sha256sum big.bin > sum.txt"
        )
        await until(lambda: _is_saving(rough, record.owner), within_s=60)
        checkpointer = ground.companion(record.node)

        assert checkpointer.send(number)
        if number == signal.SIGSTOP:
            await asyncio.sleep(4)
            assert checkpointer.send(signal.SIGCONT)
        (await task.result(wait_s=90)).check()
        await kill_worker(rough.folder, rough.look, session.id)
        checked = (await session.exec("sha256sum -c sum.txt", timeout_s=60)).check()

        assert checked.stdout.splitlines() == ["big.bin: OK"]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_checkpointer_that_dies_in_mid_restore_costs_time_only(
    ground: Ground, number: signal.Signals
) -> None:
    """The half-restored workspace is emptied and filled anew before any user code sees it."""
    rough = ground.rough
    async with rough.client() as client:
        session = await client.create_session()
        (
            await session.exec("head -c 80M /dev/urandom > big.bin; sha256sum big.bin > sum.txt")
        ).check()
        first = await kill_worker(rough.folder, rough.look, session.id)
        task = await session.start("sha256sum -c sum.txt", timeout_s=60)

        async def restores() -> Record | None:
            record = await rough.look.record(session.id)
            owned = record is not None and record.state == "running" and record.epoch > first.epoch
            return record if owned else None

        record = await until(restores, within_s=30)
        checkpointer = ground.companion(record.node)
        assert checkpointer.send(number)
        if number == signal.SIGSTOP:
            await asyncio.sleep(4)
            assert checkpointer.send(signal.SIGCONT)

        assert (await task.result(wait_s=90)).check().stdout.splitlines() == ["big.bin: OK"]


async def says_unsaved(bus: Bus, worker: str) -> None:
    """Wait until a worker has said twice that its task has changed files: all pool-managers have heard the first then."""
    heard: asyncio.Queue[int] = asyncio.Queue()

    def on_beat(message: Message) -> None:
        if size := decode(message.data, WorkerBeat).unsaved_bytes:
            heard.put_nowait(size)

    subscription = await bus.subscribe(f"hb.*.{worker}", on_beat)
    try:
        async with asyncio.timeout(15):
            for _ in range(2):
                await heard.get()
    finally:
        await subscription.drain(deadline_s=0.5)


async def _is_saving(rough: Any, worker: str) -> bool:
    """Return whether a worker says that it saves."""
    heard: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def on_beat(message: Message) -> None:
        if not heard.done():
            heard.set_result(decode(message.data, WorkerBeat).state == "saving")

    subscription = await rough.admin.subscribe(f"hb.*.{worker}", on_beat)
    try:
        async with asyncio.timeout(15):
            return await heard
    finally:
        await subscription.drain(deadline_s=0.5)
