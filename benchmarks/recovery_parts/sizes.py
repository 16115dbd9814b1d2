"""One session after another loses its worker, then its node: how long its workspace, of a certain size, takes to be back, and
how much of what its task had written is rolled back."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from harness.cluster import Private
from harness.report import Report, table
from harness.running import CannotMeasure, say

from agent_sandbox import Client, Output, Recovered, Session
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.table import read_table
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
paths = [os.path.join(at, name) for at, _, names in os.walk(".") for name in names]
found = [os.path.getsize(path) for path in paths if path != "./grows"]
print(len(found), sum(found))
"""
GROWS = """\
import os, time
if os.environ["AGENT_SANDBOX_ATTEMPT"] != "1":
    print(os.path.getsize("grows"))
else:
    with open("grows", "ab", buffering=0) as out:
        while True:
            out.write(os.urandom(65536))
            print(out.tell(), flush=True)
            time.sleep(0.05)
"""
"""Writes until its worker dies, and says how much; its next attempt says how much of it is there."""
TASK_S = 900.0
CHECKPOINT_S = 3.0
"""Between two checkpoints of the task that writes."""
UNSAVED_S = 1.0
"""It goes on for so long after a checkpoint: what it writes then is in no snapshot."""
FAULTS = ("worker", "node")


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
            saved_s, found = await victims.strike(name)
            report.add(f"size_{name}_save_s", saved_s)
            for fault, figures in found.items():
                begin = f"size_{name}_" if fault == "node" else f"size_{name}_worker_"
                for what, value in figures.items():
                    report.add(f"{begin}{what}", value)
                told.append(
                    [name, f"{saved_s:.3g}", fault, *(f"{one:.3g}" for one in figures.values())]
                )
    head = [
        "workspace",
        "save",
        "killed",
        "detect",
        "restored",
        "gate open",
        "next result",
        "rolled back, bytes",
        "told",
    ]
    report.sections.append(
        "a worker, then a node killed in mid-task, by size of the workspace; seconds\n"
        + table(head, told)
    )


class _Victims:
    """Sessions that lose their worker and their node, one after another."""

    def __init__(self, cluster: Private, client: Client, pool: str) -> None:
        self._cluster, self._client, self._pool = cluster, client, pool
        self._began = time.monotonic()
        self._tracker = Tracker()
        self._records: dict[str, Record] = {}
        self._checkpoint_at: dict[str, float] = {}
        """When the newest checkpoint of a task was heard of."""

    def on_stored(self, _: Place, subject: str, data: bytes) -> None:
        """Take in what the state streams have stored."""
        now = time.monotonic() - self._began
        if subject.startswith("rec."):
            stored = decode(data, Record)
            self._tracker.on_record(stored, now)
            self._records[stored.session] = stored
            if stored.state == "running" and stored.latest is not None:
                self._checkpoint_at[stored.latest.task] = now
        elif subject.startswith("done."):
            self._tracker.on_result(decode(data, TaskResult), now)

    async def strike(self, name: str) -> tuple[float, dict[str, dict[str, float]]]:
        """Make a workspace; return how long its save took, seconds, and what the way back took from each fault."""
        await self._cluster.wait_warm(self._pool, 2)
        size, found = SIZES[name], {}
        say(f"{name}: making the workspace")
        session = await self._client.create_session(pool=self._pool)
        made = await _run(session, FILES.format(files=size.files, bytes=size.bytes))
        saved_s = time.time() - made.timing.finished_ms / 1000
        expected = (await _run(session, COUNT)).stdout.text
        say(f"{name}: saved after {saved_s:.2f} s")
        for fault in FAULTS:
            await self._cluster.wait_warm(self._pool, 2, bound=1)
            say(f"{name}: its {fault} is killed")
            found[fault] = await self._lose(session, fault)
            after = await _run(session, COUNT)
            if after.stdout.text != expected or after.workspace_lost is not None:
                raise CannotMeasure(
                    f"{name}: {expected.strip()} became {after.stdout.text.strip()}"
                )
        await session.close()
        return saved_s, found

    async def _lose(self, session: Session, fault: str) -> dict[str, float]:
        """Kill what runs a task in its middle; return what the way back took, seconds, and what it cost, bytes."""
        task = await session.start(
            ["python3", "-c", GROWS], on_interrupt="resume", timeout_s=TASK_S
        )
        text, at_ms, hit = b"", 0.0, None
        async with asyncio.timeout(TASK_S):
            async for event in task.events():
                if isinstance(event, Recovered):
                    break
                if isinstance(event, Output):
                    text += event.data
                if hit is None and self._is_due(task.task_id):
                    hit, at_ms = await self._kill(session.id, fault), time.time() * 1000
            result = (await task.result()).check()
        if hit is None or hit.detect_s is None or hit.recover_s is None:
            raise CannotMeasure(f"{fault}: nobody heard of its recovery")
        raw = result.raw
        told = None if raw.recovery is None else raw.recovery.work_lost_bytes
        written = int(text[: text.rindex(b"\n")].split()[-1])
        return {
            "detect_s": hit.detect_s,
            "restored_s": (raw.timing.restored_ms - at_ms) / 1000,
            "gate_open_s": (raw.timing.started_ms - at_ms) / 1000,
            "recover_s": hit.recover_s,
            "rolled_back_bytes": max(0, written - int(result.stdout)),
            "told_bytes": -1 if told is None else told,
        }

    def _is_due(self, task: str) -> bool:
        """Return whether a task was checkpointed, and has gone on for a while since."""
        saved_at = self._checkpoint_at.get(task)
        return saved_at is not None and time.monotonic() - self._began > saved_at + UNSAVED_S

    async def _kill(self, session: str, fault: str) -> Hit:
        owned = self._records[session]
        assert owned.owner is not None
        assert owned.node is not None
        table = read_table(self._cluster.folder)
        assert table is not None
        if fault == "node":
            victims = dict.fromkeys(self._tracker.node_of(owned.node))
            process = next((row.process for row in table.rows if row.name == owned.node), None)
        else:
            victims = {owned.owner: None}
            process = await asyncio.to_thread(
                find_worker, self._cluster.folder, owned.owner, table.supervisor.pid
            )
        if process is None:
            raise CannotMeasure(f"the {fault} of the session does not run")
        process.send(signal.SIGKILL)
        (hit,) = self._tracker.fault(fault, time.monotonic() - self._began, victims=victims)
        return hit


async def _run(session: Session, code: str) -> TaskResult:
    async with asyncio.timeout(TASK_S):
        result = await session.python(code, timeout_s=TASK_S)
    return result.check().raw
