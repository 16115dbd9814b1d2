"""The answer: what a session's files are is saved outside of its pod. The pod is killed, then its node."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from typing import NamedTuple

import analysis

from agent_sandbox import Output, Recovered, Result, Session, Started, TaskFailed
from labs.cluster import Cluster, embedded
from labs.frame import CannotRun, Figures, Say, side
from shared.pools import PoolSpec

POOL = PoolSpec(name="labs", stock=2)
STEP_S = 90.0


class Disturbed(NamedTuple):
    """A step during which its pod died."""

    result: Result
    went_on_s: float
    """From the kill until user code ran again elsewhere."""
    work_lost_s: float


async def measure(say: Say) -> Figures:
    """Kill the pod of the first step's successor, then the node of a repeated analysis."""
    async with embedded((POOL,), say) as cluster, cluster.client() as client:
        await cluster.wait_full(POOL.name, POOL.stock)
        found: dict[str, tuple[Disturbed, int]] = {}
        for what in ("pod", "node"):
            session = await client.create_session(pool=POOL.name, files=analysis.FILES)
            async with session:
                (await session.exec(analysis.CLEAN.argv)).check()
                one = await _disturbed(cluster, session, what)
                (await session.exec(analysis.REPORT.argv)).check()
                wrong = analysis.unequal(analysis.hashes(await _read(session)))
            say(
                f"a {what} was killed: user code ran again after {one.went_on_s:.2f} s, "
                f"{one.work_lost_s:.1f} s of work were done again, {wrong} files are wrong"
            )
            found[what] = one, wrong
        return {
            "files_missing_or_wrong": sum(wrong for _, wrong in found.values()),
            "steps_that_failed": sum(not one.result.ok for one, _ in found.values()),
            "steps_to_do_again": 0,
            "work_lost_s": max(one.work_lost_s for one, _ in found.values()),
            "pod_killed_went_on_s": found["pod"][0].went_on_s,
            "node_killed_went_on_s": found["node"][0].went_on_s,
        }


async def _disturbed(cluster: Cluster, session: Session, what: str) -> Disturbed:
    """Run the second step and kill what it runs on, in the middle."""
    killed_at, lines, went_on_s, lost_s = 0.0, 0, 0.0, 0.0
    async with asyncio.timeout(STEP_S), await session.start(analysis.SUM.argv) as task:
        async for event in task.events():
            match event:
                case Started(worker=worker):
                    if killed_at:
                        went_on_s = time.monotonic() - killed_at
                    else:
                        owner = worker
                case Recovered(event=told) if told.recovery is not None:
                    lost_s = told.recovery.work_lost_s
                case Output(stream="stdout", data=data):
                    lines += data.count(b"\n")
                    if lines >= analysis.DIE_AFTER_LINES and not killed_at:
                        killed_at = await _kill(cluster, session, owner, what)
                case _:
                    pass
        result = await task.result()
    if not went_on_s:
        raise CannotRun("the second step was over before it could be disturbed")
    return Disturbed(result.check(), went_on_s, lost_s)


async def _kill(cluster: Cluster, session: Session, worker: str, what: str) -> float:
    if what == "node":
        record = (await session.show()).record
        if record is None or record.node is None:
            raise CannotRun("the session has no node")
        return await asyncio.to_thread(cluster.kill_node, record.node)
    process = await asyncio.to_thread(cluster.worker, worker)
    process.send(signal.SIGKILL)
    return time.monotonic()


async def _read(session: Session) -> dict[str, bytes]:
    """Return the files that there are."""
    found = {}
    for path in analysis.MADE:
        with suppress(TaskFailed):
            found[path] = await session.read(path)
    return found


if __name__ == "__main__":
    side(measure)
