"""The negative control: zombies in a build without fencing. A checker that finds nothing there proves nothing elsewhere."""

from __future__ import annotations

import argparse
import asyncio
import signal
import time

from harness.cluster import Private, private_cluster
from harness.machine import describe_machine, find_commit
from harness.pictures import Picture
from harness.report import Report, Target
from harness.running import ROOT, CannotMeasure, fresh_folder, run, say

from agent_sandbox import Client
from agent_sandbox.places import TENANT
from agent_sandbox.running import RunningTask
from shared import messages
from shared.pools import PoolSpec
from shared.record import Record
from shared.task import Python
from shared.testing.checker import judge
from shared.testing.history import Accepted
from shared.testing.look import until
from shared.testing.recorder import Recorder, record
from soak_parts import unfenced
from soak_parts.figures import add_verdict
from soak_parts.nemesis import node_pids
from soak_parts.workers import Finder

POOL = PoolSpec(name="soak", stock=16, pods_max=64)
ZOMBIES = 5
TASK_S = 7.0
"""Longer than it takes until a silent worker is replaced: its user code ends when another one runs the task already,
and that one ends later."""
WITHIN_S = 30.0


def main(given: argparse.Namespace) -> int:
    """Run the control; return the exit code: 1 where the checker finds nothing."""
    return run(lambda: measure(given), save=given.save, part="negative-control", must_reach=True)


async def measure(given: argparse.Namespace) -> tuple[Report, list[Picture]]:
    """Let workers become zombies in mid-task, wake them, and judge."""
    targets = tuple(Target(kind, 1, at_least=True) for kind in ("doubled", "stale"))
    report = Report("soak", find_commit(ROOT), {}, targets)
    with fresh_folder() as folder:
        unfenced.build(folder)
        with unfenced.used(folder):
            await _control(report, given.isolation)
    return report, []


async def _control(report: Report, isolation: str) -> None:
    async with private_cluster((POOL,), isolation=isolation) as cluster:
        report.machine = describe_machine(await cluster.wait_warm(POOL.name, POOL.stock))
        async with cluster.client() as client, record(cluster.admin) as recorder:
            tasks = [await publish(client) for _ in range(ZOMBIES)]
            await make_zombies(cluster, recorder, tasks)
            await wait_for_second_results(recorder, tasks)
            accepted = [
                Accepted(tenant=TENANT, session=task.session_id, task=task.task_id)
                for task in tasks
            ]
            history = await recorder.history(accepted)
    add_verdict(report, judge(history), history)


async def publish(client: Client) -> RunningTask:
    """Publish a task that sleeps, and return it when its user code runs."""
    code = Python(code=f"import time; time.sleep({TASK_S})")
    task = await client.publish(code, {"pool": POOL.name})
    task.ignore_events()
    await until(lambda: task.has_started, within_s=WITHIN_S)
    return task


async def make_zombies(cluster: Private, recorder: Recorder, tasks: list[RunningTask]) -> None:
    """Stop the tasks' workers until others run the tasks and the first attempts' user code has ended; then wake them."""
    began = time.monotonic()
    owners = {task.session_id: record_of(recorder, task).owner or "" for task in tasks}
    find, nodes = Finder(cluster.folder).find, node_pids(cluster.folder)
    zombies = [await asyncio.to_thread(find, owner, nodes) for owner in owners.values()]
    stopped = [process for process in zombies if process is not None]
    if len(stopped) < ZOMBIES:
        raise CannotMeasure("a worker's process was not found")
    try:
        for process in stopped:
            process.send(signal.SIGSTOP)
        say(f"{ZOMBIES} workers are stopped in mid-task")

        def replaced() -> bool:
            records = [record_of(recorder, task) for task in tasks]
            return all(one.owner not in (None, owners[one.session]) for one in records)

        await until(replaced, within_s=WITHIN_S)
        say(f"all are replaced after {time.monotonic() - began:.1f} s")
        await asyncio.sleep(began + TASK_S + 0.5 - time.monotonic())
    finally:
        for process in stopped:
            process.send(signal.SIGCONT)
    say("the zombies are awake")


async def wait_for_second_results(recorder: Recorder, tasks: list[RunningTask]) -> None:
    """Wait until each task has two results, or long enough for all owners to have given theirs."""
    give_up = time.monotonic() + 2 * TASK_S
    while time.monotonic() < give_up:
        if all(len(stored(recorder, "done", task)) > 1 for task in tasks):
            return
        await asyncio.sleep(0.1)


def stored(recorder: Recorder, kind: str, task: RunningTask) -> list[bytes]:
    """Return all versions of a task's result or of its session's record, oldest first."""
    return [
        data
        for _, (subject, data) in sorted(recorder.stored.items())
        if subject.startswith(f"{kind}.") and subject.endswith(f".{task.session_id}")
    ]


def record_of(recorder: Recorder, task: RunningTask) -> Record:
    """Return the last version of a one-shot's record."""
    return messages.decode(stored(recorder, "rec", task)[-1], Record)
