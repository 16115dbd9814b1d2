"""A node's checkpointer over real NATS, whose store is a dictionary, and a worker's pod that it works on."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
from holding import FakeSandbox, FakeTruth, body, holder, owned

from shared import messages, subjects, transitions
from shared.bus import Bus, Message
from shared.errors import ErrorInfo, ServiceError
from shared.messages import Credential, PodSpec
from shared.pools import PodLimits
from shared.record import Death, Record
from shared.service import Stop
from shared.workspace import MARK, CheckpointAnswer, CheckpointAsk, Mark, SnapshotRef
from worker_agent.adapters.checkpoints import NodeCheckpointer
from worker_agent.loops.keep_files import FileKeeper
from worker_agent.ports import Held
from worker_agent.settings import WorkerSettings

NODE = "n"
FIRST = "task-0001"
"""The first of the inbox."""
WAITS_S = 0.02
DIED = Death(cause="process_exit", process_died=True, silent_ms=20)


class Store:
    """Snapshots, by id: what was in each file of a workspace."""

    def __init__(self) -> None:
        """Hold nothing; be there."""
        self.snapshots: dict[str, dict[str, str]] = {}
        self.named: dict[str, SnapshotRef] = {}
        """Snapshots that are retained, by name."""
        self.fault: ServiceError | None = None
        """Why it can't be used."""

    def put(self, workspace: Path, at_ms: int) -> SnapshotRef:
        """Keep what is in a workspace."""
        files = {path.name: path.read_text() for path in workspace.iterdir()}
        name = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
        self.snapshots[name] = files
        return SnapshotRef(id=name, pack="t/session/p", at_ms=at_ms, entries=len(files))

    def get(self, reference: SnapshotRef, workspace: Path) -> None:
        """Fill a workspace."""
        for name, text in self.snapshots[reference.id].items():
            (workspace / name).write_text(text)


class Checkpointer:
    """Does what pods of its node ask for."""

    def __init__(self, store: Store, folder: Path) -> None:
        """Keep snapshots in `store`; pods lie in `folder`."""
        self.store = store
        self._folder = folder
        self.asks: list[CheckpointAsk] = []
        self.begun: list[CheckpointAsk] = []
        """Each job once."""
        self._ended: dict[str, CheckpointAnswer] = {}
        self.on_save: Callable[[], Awaitable[object]] | None = None
        """Awaited in the middle of each save, before the tree is read."""
        self.changed = asyncio.Event()
        """Set with each ask."""
        self.waits = ""
        """While it is not empty no job goes on, and this is why."""

    async def serve(self, bus: Bus) -> None:
        """Begin to answer."""

        async def heard(message: Message) -> None:
            ask = messages.decode(message.data, CheckpointAsk)
            self.asks.append(ask)
            self.changed.set()
            await bus.publish(message.reply, messages.encode(await self._answer(ask)))

        await bus.subscribe(subjects.checkpoint(NODE, "*"), heard)

    async def _answer(self, ask: CheckpointAsk) -> CheckpointAnswer:
        if self.waits:
            await asyncio.sleep(WAITS_S)
            return CheckpointAnswer(job=ask.job, state="running", waits=self.waits)
        if ask.job not in self._ended:
            self.begun.append(ask)
            self._ended[ask.job] = await self._done(ask)
        answer = self._ended[ask.job]
        if ask.op == "save" and answer.state == "done" and ask.knows is None:
            return msgspec.structs.replace(answer, state="scanned", snapshot=None)
        return answer

    async def _done(self, ask: CheckpointAsk) -> CheckpointAnswer:
        workspace = self._folder / ask.pod / "workspace"
        fault = self.store.fault
        if fault is not None:
            return self._failed(ask, fault.info())
        if ask.op == "restore":
            assert ask.snapshot is not None
            if ask.snapshot.id not in self.store.snapshots:
                return self._failed(ask, ErrorInfo(code="not_found", message="no such snapshot"))
            self.store.get(ask.snapshot, workspace)
            return CheckpointAnswer(job=ask.job, state="done")
        if ask.op == "retain":
            found = self.store.named.get(ask.wanted or "")
            if found is None:
                error = ErrorInfo(code="not_found", message=f"snapshot: no {ask.wanted}")
                return self._failed(ask, error)
            return CheckpointAnswer(job=ask.job, state="done", snapshot=found)
        if self.on_save is not None:
            await self.on_save()
        saved = self.store.put(workspace, at_ms=1_000 + len(self.begun))
        if ask.snapshot is not None and ask.snapshot.id == saved.id:
            saved = ask.snapshot
        return CheckpointAnswer(job=ask.job, state="done", snapshot=saved)

    @staticmethod
    def _failed(ask: CheckpointAsk, error: ErrorInfo) -> CheckpointAnswer:
        return CheckpointAnswer(job=ask.job, state="failed", error=error)


class Sandbox(FakeSandbox):
    """User code that works on the files of a pod; it stands still while it is frozen."""

    def __init__(self, workspace: Path) -> None:
        """Work in `workspace`."""
        super().__init__()
        self.workspace = workspace
        self.acts: list[str] = []
        self.orders: list[Any] = []
        self.programs: dict[str, Callable[[Sandbox], Awaitable[None]]] = {}
        """By task."""

    async def run(self, order: Any) -> Any:
        """Run a task's program."""
        self.orders.append(order)
        name = order.env["AGENT_SANDBOX_TASK"]
        await order.on_started(1.0)
        if name in self.programs:
            await self.programs[name](self)
        return self.end

    def append(self, line: str) -> None:
        """Append a line to the journal."""
        with (self.workspace / "journal").open("a") as journal:
            journal.write(line + "\n")

    def journal(self) -> list[str]:
        """Return its lines."""
        path = self.workspace / "journal"
        return path.read_text().splitlines() if path.exists() else []

    async def freeze(self) -> None:
        """Stand still."""
        self.acts.append("freeze")

    async def thaw(self) -> None:
        """Go on."""
        self.acts.append("thaw")


class Pod:
    """One worker of one pod, fresh."""

    def __init__(self, folder: Path, bus: Bus) -> None:
        """Make its folder under `folder`; ask over `bus`."""
        self.name = f"p-{uuid4().hex[:8]}"
        self.folder = folder / self.name
        (self.folder / "workspace").mkdir(parents=True)
        self.sandbox = Sandbox(self.folder / "workspace")
        spec = PodSpec(
            pod=self.name, pool="p", node=NODE, isolation="process", limits=PodLimits(),
            credential=Credential(jwt="", seed=""),
        )  # fmt: skip
        self.workspaces = NodeCheckpointer(bus, spec, self.folder)
        self.files: FileKeeper | None = None

    @property
    def says(self) -> tuple[str | None, str]:
        """What its heartbeat would say of its files: what is done with them, and why it takes so long."""
        return (None, "") if self.files is None else (self.files.doing, self.files.reason[0])

    def leave(self) -> None:
        """Tell the worker to leave."""
        assert self.files is not None, "it holds a session"
        self.files.leave()

    def mark(self) -> Mark | None:
        """Return what it says of its workspace."""
        path = self.folder / MARK
        return messages.decode(path.read_bytes(), Mark) if path.exists() else None

    async def hold(
        self,
        truth: FakeTruth,
        held: Held,
        stop: Stop | None = None,
        *,
        within_s: float = 10,
        **settings: Any,
    ) -> None:
        """Work a session off, to its end."""
        idle_release_s = settings.pop("idle_release_s", 0.05)
        named = {
            key: settings.pop(key) for key in ("voice", "give_up_s", "spans") if key in settings
        }
        holding = holder(
            truth,
            self.sandbox,
            workspaces=self.workspaces,
            settings=WorkerSettings(**settings),
            **named,
        )
        self.files = holding._files
        async with asyncio.timeout(within_s):
            await holding.hold(held, stop or Stop(), idle_release_s=idle_release_s)


class Place(NamedTuple):
    """A node with its checkpointer, and a session's truth."""

    new_pod: Callable[[], Pod]
    checkpointer: Checkpointer
    truth: FakeTruth

    @property
    def store(self) -> Store:
        """The checkpointer's."""
        return self.checkpointer.store


def writes(line: str) -> Callable[[Sandbox], Awaitable[None]]:
    """Return a program that appends a line."""

    async def program(sandbox: Sandbox) -> None:
        sandbox.append(line)

    return program


def kept_session(truth: FakeTruth, worker: str = "w") -> Held:
    """Let a worker own a session whose first task is to be done."""
    held = owned(truth, body(keep=True))
    held.record = msgspec.structs.replace(held.record, owner=worker)
    truth.record = held.record
    return held


def taken_over(truth: FakeTruth, dead_in: str) -> Held:
    """Give the owner up, who died in a task, and let another worker own the session."""
    death = msgspec.structs.replace(DIED, task=dead_in)
    revoked = transitions.revoke(truth.record, death=death, now_ms=5_000)
    return claimed(truth, revoked)


def claimed(truth: FakeTruth, record: Record) -> Held:
    """Let another worker own a queued session."""
    record = transitions.claim(record, owner="w", node="n", now_ms=6_000)
    return Held(record=record, seq=truth.put(record), payload=body(keep=True))
