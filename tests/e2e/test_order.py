"""One session, several publishers at once: its tasks run in the order of their acceptance, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from agent_sandbox import Client
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.table import read_table
from agent_sandbox.places import TENANT
from shared import subjects
from shared.bus import Bus
from shared.errors import ServiceError
from shared.ids import home
from shared.messages import TaskResult
from shared.testing.look import Look, until

PUBLISHER = """
import asyncio, json, sys
from pathlib import Path
from agent_sandbox import Client, ClientOptions
from shared import subjects
from shared.task import Command, encode_task

async def publish(state, session, name, count):
    async with Client(ClientOptions(state=Path(state))) as client:
        for number in range(int(count)):
            task = f"{name}-{number:04d}-{session[:8]}"
            subject = subjects.session_task("default", session, task)
            body = encode_task(Command(argv=("sleep", "0.02")))
            for _ in range(2):  # the second is a retry of one whose answer got lost
                ack = await client.bus.publish_acked(subject, body, message_id=task, deadline_s=25)
            print(json.dumps([task, ack.seq]), flush=True)

asyncio.run(publish(*sys.argv[1:]))
"""


async def publish(state: Path, session: str, name: str, count: int) -> list[tuple[str, int]]:
    """Publish from a process of its own; return task and inbox sequence of each, in the order of the PubAcks."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PUBLISHER, str(state), session, name, str(count), stdout=asyncio.subprocess.PIPE
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0
    return [tuple(json.loads(line)) for line in said.splitlines()]


class Load(NamedTuple):
    """How much is done to one session."""

    publishers: int
    tasks: int
    """Of each publisher."""
    kills: int


class Nemesis:
    """Kills the session's workers and lets its streams elect new leaders, so often and no more."""

    def __init__(self, folder: Folder, truth: Bus, session: str) -> None:
        """Be ready."""
        self.kills = 0
        self._folder = folder
        self._truth = truth
        self._session = session

    async def strike(self, kills: int) -> None:
        """Kill so many workers, each in another task than the one before, and hold elections in between."""
        look = Look(self._truth, TENANT)
        shard, done = home(self._session), -1
        while self.kills < kills:
            for stream in (subjects.inbox_stream(shard), subjects.state_stream(shard)):
                try:
                    await self._truth.js_api(f"STREAM.LEADER.STEPDOWN.{stream}", {})
                except ServiceError:
                    continue  # it is electing already
            record = None
            async with asyncio.timeout(30):
                while record is None or record.owner is None or record.tasks_done <= done:
                    await asyncio.sleep(0.05)
                    try:
                        record = await look.record(self._session)
                    except ServiceError:
                        continue
            table = read_table(self._folder)
            assert table is not None
            victim = await asyncio.to_thread(
                find_worker, self._folder, record.owner, table.supervisor.pid
            )
            if victim is not None:
                victim.send(signal.SIGKILL)
                self.kills, done = self.kills + 1, record.tasks_done + 1


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "load",
    [Load(3, 8, kills=1), pytest.param(Load(4, 40, kills=5), marks=pytest.mark.slow)],
    ids=["short", "long"],
)
async def test_results_come_in_the_order_of_acceptance(
    embedded: Folder, client: Client, truth: Bus, load: Load
) -> None:
    """Of all publishers together, and so of each; every task once, retries of its publish notwithstanding."""
    session = (await client.create_session()).id
    nemesis = Nemesis(embedded, truth, session)

    async with asyncio.TaskGroup() as group:
        striking = group.create_task(nemesis.strike(load.kills))
        writing = [
            group.create_task(publish(embedded.path, session, f"publisher-{number}", load.tasks))
            for number in range(load.publishers)
        ]
    striking.result()
    accepted = [task.result() for task in writing]

    look = Look(truth, TENANT)
    by_seq = sorted((seq, task) for own in accepted for task, seq in own)

    async def all_done() -> bool:
        record = await look.record(session)
        return record is not None and record.position >= by_seq[-1][0]

    await until(all_done, within_s=120)
    results: list[TaskResult] = []
    for _, task in by_seq:
        result = await look.result(session, task)
        assert result is not None
        assert result.status == "ok", result
        results.append(result)
    for own in accepted:
        assert [seq for _, seq in own] == sorted({seq for _, seq in own})
    starts = [result.timing.started_ms for result in results]
    ends = [result.timing.finished_ms for result in results]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    record = await look.record(session)
    assert record is not None
    assert (record.tasks_done, record.position) == (len(by_seq) + 1, by_seq[-1][0])
    assert nemesis.kills == load.kills
    assert record.epoch > nemesis.kills  # each death raised it, be it in a task or between two
    await client.session(session).close()
