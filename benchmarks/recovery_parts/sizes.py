"""One session after another loses its node: how long its workspace, of a certain size, takes to be back."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from harness.cluster import Private
from harness.report import Report, table
from harness.running import CannotMeasure, say
from soak_parts.nemesis import rows

from agent_sandbox import Client, Session
from recovery_parts.tracker import Hit, Tracker
from shared.messages import TaskResult, decode
from shared.record import Record
from shared.testing.history import Place
from shared.testing.recorder import record

FILES = """\
import os, random
made = random.Random(7)
for number in range({files}):
    folder = f"d{{number // 50:04d}}"
    os.makedirs(folder, exist_ok=True)
    with open(f"{{folder}}/f{{number}}", "wb") as out:
        for _ in range(max(1, {bytes} // 1048576)):
            out.write(made.randbytes(min({bytes}, 1048576)))
"""
COUNT = """\
import os
found = [os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(".") for name in names]
print(len(found), sum(found))
"""
TASK_S = 900.0
WARM_S = 60.0


@dataclass(frozen=True)
class Size:
    """A workspace of random content, that no compression makes smaller."""

    files: int
    bytes: int
    """Of each file."""


SIZES = {
    "1mb": Size(8, 131_072),
    "100mb": Size(100, 1_048_576),
    "28k": Size(28_000, 4_096),
    "5gb": Size(40, 134_217_728),
}
NAMES = tuple(SIZES)


async def measure(cluster: Private, pool: str, names: Sequence[str], report: Report) -> None:
    """Measure each size, and enter its figures.

    Raises:
        CannotMeasure: a task failed, or a workspace came back other than it was.
    """
    told = []
    async with cluster.client() as client, record(cluster.admin) as recorder:
        victims = _Victims(cluster, client, pool)
        recorder.hearers.append(victims.on_stored)
        for name in names:
            await cluster.wait_warm(pool, 2)
            found = await victims.strike(name)
            told.append([name, *(f"{value:.3g}" for value in found.values())])
            for what, value in found.items():
                report.add(f"size_{name}_{what}", value)
    report.sections.append(
        "a node killed, by size of the workspace; seconds\n"
        + table(["workspace", "save", "detect", "restored", "next result"], told)
    )


class _Victims:
    """Sessions that lose their node, one after another."""

    def __init__(self, cluster: Private, client: Client, pool: str) -> None:
        self._cluster, self._client, self._pool = cluster, client, pool
        self._began = time.monotonic()
        self._tracker = Tracker()

    def on_stored(self, _: Place, subject: str, data: bytes) -> None:
        """Take in what the state streams have stored."""
        now = time.monotonic() - self._began
        if subject.startswith("rec."):
            self._tracker.on_record(decode(data, Record), now)
        elif subject.startswith("done."):
            self._tracker.on_result(decode(data, TaskResult), now)

    async def strike(self, name: str) -> dict[str, float]:
        """Make a workspace, kill its node, and return what the way back took, seconds."""
        size = SIZES[name]
        say(f"{name}: making the workspace")
        session = await self._client.create_session(pool=self._pool)
        made = await _run(session, FILES.format(files=size.files, bytes=size.bytes))
        saved_s = time.time() - made.timing.finished_ms / 1000
        expected = (await _run(session, COUNT)).stdout.text
        say(f"{name}: saved after {saved_s:.2f} s; its node is killed")
        at_ms, hit = time.time() * 1000, self._kill(made.node)
        after = await _run(session, COUNT)
        if after.stdout.text != expected or after.workspace_lost is not None:
            raise CannotMeasure(f"{name}: {expected.strip()} became {after.stdout.text.strip()}")
        if hit.detect_s is None or hit.recover_s is None:
            raise CannotMeasure(f"{name}: nobody heard of its recovery")
        await session.close()
        return {
            "save_s": saved_s,
            "detect_s": hit.detect_s,
            "restored_s": (after.timing.restored_ms - at_ms) / 1000,
            "recover_s": hit.recover_s,
        }

    def _kill(self, node: str) -> Hit:
        victims = dict.fromkeys(self._tracker.node_of(node))
        for row in rows(self._cluster.folder, "node"):
            if row.name == node and row.process is not None:
                row.process.send(signal.SIGKILL)
                now = time.monotonic() - self._began
                (hit,) = self._tracker.fault("node", now, victims=victims)
                return hit
        raise CannotMeasure(f"node {node} of the session does not run")


async def _run(session: Session, code: str) -> TaskResult:
    async with asyncio.timeout(TASK_S):
        result = await session.python(code, timeout_s=TASK_S)
    return result.check().raw
