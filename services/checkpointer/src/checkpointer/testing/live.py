"""A checkpointer as a process, with nothing but its own rights, and who asks it."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from shared import messages, packs, subjects
from shared.bus import Bus, Message
from shared.cluster import Cluster
from shared.errors import ServiceError
from shared.identity import roles, write_credential
from shared.ids import SHARDS, home
from shared.kube_names import node_token
from shared.record import Record
from shared.testing.names import unique
from shared.workspace import (
    JOB_ENDS,
    MARK,
    CheckpointAnswer,
    CheckpointAsk,
    CheckpointerBeat,
    Mark,
    Op,
    SnapshotRef,
    WorkspaceHead,
)

TENANT = "acme"
ASK_S = 3.0
JOB_S = 60.0
STARTED_S = 45.0
"""Longest wait for a heartbeat that fits: of a process that starts on a busy machine, say."""
MIB = 1 << 20


class Live:
    """One node's checkpointer."""

    def __init__(self, cluster: Cluster, folder: Path, bus: Bus, **settings: str) -> None:
        """Start nothing yet; `bus` may do everything."""
        name = settings.pop("NODE", "") or unique("node")[:32]
        self.node = node_token(name)
        self.pods = folder / "pods"
        self.pods.mkdir(parents=True, exist_ok=True)
        self.bus = bus
        self.beats: asyncio.Queue[CheckpointerBeat] = asyncio.Queue()
        minted = cluster.identity.signer.mint(f"ckpt-{self.node}", roles.checkpointer(self.node))
        write_credential(folder / "checkpointer.creds", minted)
        variables = {
            "NODE": name,
            "SERVERS": ",".join(cluster.urls),
            "CREDENTIAL_FILE": str(folder / "checkpointer.creds"),
            "PODS_DIR": str(self.pods),
            "BEAT_S": "0.1",
            "LOG_LEVEL": "warning",
            **settings,
        }
        self._env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            **{f"CHECKPOINTER_{name}": value for name, value in variables.items()},
        }
        self.command = [sys.executable, "-m", "checkpointer"]
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start the process, and wait until its store can be used."""
        if self.process is None:
            subject = subjects.checkpointer_heartbeat(self.node)
            await self.bus.subscribe(subject, self._on_beat)
        self.process = await asyncio.to_thread(subprocess.Popen, self.command, env=self._env)
        await self.beat(lambda beat: not beat.unavailable)

    def kill(self) -> None:
        """Kill the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)

    def _on_beat(self, message: Message) -> None:
        self.beats.put_nowait(messages.decode(message.data, CheckpointerBeat))

    async def beat(self, fits: object) -> CheckpointerBeat:
        """Wait for a heartbeat that comes from now on and fits."""
        while not self.beats.empty():
            self.beats.get_nowait()
        assert callable(fits)
        async with asyncio.timeout(STARTED_S):
            while not fits(beat := await self.beats.get()):
                pass
        return beat

    def workspace(self, pod: str) -> Path:
        """Return a pod's workspace, made where it is not there."""
        path = self.pods / pod / "workspace"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def mark(self, pod: str, mark: Mark) -> None:
        """Say of a pod's workspace what is in it, as its worker does."""
        (self.pods / pod / MARK).write_bytes(messages.encode(mark))

    async def ask(self, ask: CheckpointAsk, asker: str = "") -> CheckpointAnswer:
        """Ask until the job has ended, as a worker does; nobody there is asked again."""
        subject = subjects.checkpoint(self.node, asker or ask.pod)
        async with asyncio.timeout(JOB_S):
            while True:
                try:
                    reply = await self.bus.request(subject, messages.encode(ask), timeout_s=ASK_S)
                except ServiceError:
                    await asyncio.sleep(0.1)
                    continue
                answer = messages.decode(reply.data, CheckpointAnswer)
                if answer.state in JOB_ENDS:
                    return answer


class Owned:
    """A session and the pod that owns it, by its record."""

    def __init__(self, live: Live, pod: str = "default-0-1") -> None:
        """Write nothing yet."""
        self.live, self.pod = live, pod
        self.jobs = 0
        self.seq = 0
        now_ms = int(time.time() * 1000)
        self.record = Record(
            session=unique("session"),
            tenant=TENANT,
            pool="default",
            state="running",
            lane="batch",
            client_lane="batch",
            keep=True,
            accepted_ms=now_ms,
            epoch=1,
            owner=pod,
            node=live.node,
            claimed_ms=now_ms,
            first_done=True,
        )

    async def write(self, record: Record | None = None) -> None:
        """Write the record."""
        self.record = record or self.record
        subject = subjects.record("default", TENANT, self.record.session)
        self.seq = await self.live.bus.compare_and_set(
            subject, messages.encode(self.record), expected_seq=self.seq
        )

    def mark(
        self, *, session: str = "", epoch: int = 1, task: str = "", exclude: tuple[str, ...] = ()
    ) -> None:
        """Say of the pod's workspace that it is this session's, as a worker does."""
        session = session or self.record.session
        mark = Mark(session=session, epoch=epoch, task=task, exclude=exclude)
        self.live.mark(self.pod, mark)

    @property
    def where(self) -> tuple[str, str]:
        """Stream and subject of the record."""
        session = self.record.session
        return subjects.state_stream(home(session)), subjects.any_pool_record(TENANT, session)

    async def read(self) -> Record:
        """Return the record as it is stored."""
        stored = await self.live.bus.read_last(*self.where)
        assert stored is not None
        return messages.decode(stored.data, Record)

    async def head(self) -> WorkspaceHead:
        """Return the workspace head as it is stored."""
        session = self.record.session
        stored = await self.live.bus.read_last(
            subjects.state_stream(home(session)),
            subjects.workspace_head("default", TENANT, session),
        )
        assert stored is not None
        return messages.decode(stored.data, WorkspaceHead)

    def asking(
        self, op: Op, snapshot: SnapshotRef | None = None, *, pod: str = "", job: str = ""
    ) -> CheckpointAsk:
        """Return an ask under an id of its own."""
        self.jobs += 1
        return CheckpointAsk(
            job=job or f"{self.record.session}-{self.jobs}",
            op=op,
            tenant=TENANT,
            pool="default",
            session=self.record.session,
            epoch=self.record.epoch,
            pod=pod or self.pod,
            snapshot=snapshot,
            left_s=JOB_S,
        )


def fill(folder: Path) -> dict[str, bytes]:
    """Write a small tree; return its files."""
    (folder / "src").mkdir()
    (folder / "src" / "main.py").write_text("print('hello')\n")
    (folder / "big.bin").write_bytes(random.Random(1).randbytes(3 * MIB))
    (folder / "link").symlink_to("src/main.py")
    return files(folder)


def files(folder: Path) -> dict[str, bytes]:
    """Return path -> content of all files."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


async def saved(owned: Owned, parent: SnapshotRef | None = None) -> SnapshotRef:
    """Save the workspace; return the snapshot."""
    answer = await owned.live.ask(owned.asking("save", parent))
    assert answer.state == "done", answer.error
    assert answer.snapshot is not None
    return answer.snapshot


async def packs_of(bus: Bus, session: str) -> set[str]:
    """Return the subjects of a session's packs."""
    found: set[str] = set()
    for shard in range(SHARDS):
        info = await bus.js_api(
            f"STREAM.INFO.{packs.stream(shard)}",
            {"subjects_filter": f"pack.{shard}.{TENANT}.{session}.>"},
        )
        found |= set(info["state"].get("subjects") or {})
    return found
