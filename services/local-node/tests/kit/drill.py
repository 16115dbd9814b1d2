"""A node without the bus: real zygotes, real pods, and a way to run code in them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from local_node.adapters.machine import Machine, open_machine
from local_node.loops.hold_pods import HoldSettings, Pods
from local_node.settings import NodeSettings
from shared.messages import Credential, NodeBeat, PodGone, PodSpec
from shared.pools import PodLimits

NODE = "drill"
LIMITS = PodLimits(memory_mib=128, pids=48, cpu=1.0, disk_mib=16)
READY_S = 20.0
GONE_S = 20.0


class Ears:
    """The `Voice` port: keeps what the node says."""

    def __init__(self) -> None:
        self.endings: dict[str, PodGone] = {}
        self.changed = asyncio.Condition()

    async def gone(self, pool: str, gone: PodGone) -> None:
        """Note an ending."""
        async with self.changed:
            assert gone.pod not in self.endings, "told twice"
            self.endings[gone.pod] = gone
            self.changed.notify_all()

    async def beat(self, beat: NodeBeat) -> None:
        """Nobody beats in these tests."""
        raise AssertionError("nobody beats here")


class DrillPod:
    """A started pod."""

    def __init__(self, name: str, folder: Path, facts: dict[str, Any]) -> None:
        self.name = name
        self.folder = folder
        self.facts = facts
        self.sandbox_pid: int = facts["sandbox_pid"]
        self.sidecar_pid: int = facts["sidecar_pid"]
        self.sandbox: dict[str, Any] = facts["sandbox"]

    async def order(self, order: dict[str, Any]) -> dict[str, Any]:
        """Send one order to the test sidecar and return its answer."""
        reader, writer = await asyncio.open_unix_connection(str(self.folder / "order"))
        try:
            writer.write(json.dumps(order).encode() + b"\n")
            await writer.drain()
            line = await reader.readline()
        finally:
            writer.close()
            await writer.wait_closed()
        answer: dict[str, Any] = json.loads(line) if line else {}
        return answer

    async def python(self, code: str, timeout_s: float = 15.0) -> dict[str, Any]:
        """Run Python code in the sandbox, in an interpreter of its own."""
        return await self.order(
            {"kind": "command", "argv": ["python3", "-c", code], "timeout_s": timeout_s}
        )

    async def shell(self, line: str, timeout_s: float = 15.0) -> dict[str, Any]:
        """Run a shell's line in the sandbox."""
        return await self.order({"kind": "command", "shell": line, "timeout_s": timeout_s})

    async def answers(self) -> bool:
        """Whether the pod still runs what it is asked for."""
        said = await self.shell("echo alive", timeout_s=10)
        return said.get("exit_code") == 0 and said["stdout"] == "alive\n"


class Drill:
    """The node."""

    def __init__(self, settings: NodeSettings, machine: Machine, pods: Pods, ears: Ears) -> None:
        self.settings = settings
        self.machine = machine
        self.pods = pods
        self.ears = ears
        self.folder = Path(settings.dir)

    @property
    def available(self) -> dict[str, str]:
        """The node's classes."""
        return self.machine.sandboxes.available

    async def start(self, name: str, isolation: str, limits: PodLimits = LIMITS) -> DrillPod:
        """Start a pod and wait until its sandbox has said hello."""
        spec = PodSpec(
            pod=name,
            pool="drill",
            node=NODE,
            isolation=isolation,
            limits=limits,
            credential=Credential(jwt="jwt-of-a-sidecar", seed="seed-of-a-sidecar"),
        )
        self.pods.create(spec, self.available)
        folder = self.folder / "pods" / name
        async with asyncio.timeout(READY_S):
            while not (folder / "order").exists():
                if name in self.ears.endings:
                    raise AssertionError(f"did not start: {self.ears.endings[name]}")
                await asyncio.sleep(0.002)
        return DrillPod(name, folder, json.loads((folder / "facts.json").read_text()))

    def keepers_and_zygotes(self, pods: list[DrillPod]) -> tuple[list[int], list[int]]:
        """Return the processes that this node has besides its pods: those that fork pods, and who waits for such."""
        of_pods = {pid for pod in pods for pid in (pod.sandbox_pid, pod.sidecar_pid)}
        parents = {pid: parent(pid) for pid in processes_with("local_node.adapters.zygote.server")}
        first = {pid for pid, parent in parents.items() if parent == os.getpid()}
        second = {pid for pid, parent in parents.items() if parent in first} - of_pods
        keepers = {parents[pid] for pid in second}
        return sorted(keepers), sorted((first | second) - keepers)

    async def wait_gone(self, name: str, within_s: float = GONE_S) -> PodGone:
        """Wait until the node has told a pod's end."""
        async with asyncio.timeout(within_s), self.ears.changed:
            await self.ears.changed.wait_for(lambda: name in self.ears.endings)
        return self.ears.endings[name]

    async def end(self, pod: DrillPod, within_s: float = GONE_S) -> PodGone:
        """Delete a pod and wait for its end."""
        self.pods.delete(pod.name, 0)
        return await self.wait_gone(pod.name, within_s)


def make_folder() -> Path:
    """Return a new folder that every user may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="agent-sandbox-drill-"))
    folder.chmod(0o711)
    return folder


@asynccontextmanager
async def open_drill(*, folder: str | None = None, **changes: Any) -> AsyncIterator[Drill]:
    """Run a node; end it with all that it started.

    Args:
        folder: where, kept afterwards; None: in a folder of its own.
        changes: settings that differ.
    """
    own = make_folder() if folder is None else None
    died: list[str] = []
    settings = NodeSettings(
        **{
            "name": NODE,
            "dir": folder or f"{own}/node",
            "sidecar_module": "drill_sidecar",
            **changes,
        }
    )
    try:
        async with open_machine(settings, died.append) as machine, asyncio.TaskGroup() as tasks:
            ears = Ears()
            hold = HoldSettings(
                node=NODE, pods_max=64, starting_max=8, linger_s=1.0, dead_kept_s=60.0
            )
            pods = Pods(hold, machine.starter, ears, tasks)
            try:
                yield Drill(settings, machine, pods, ears)
            finally:
                assert await pods.drain(0, 30)
        assert died == []
    finally:
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)


class Background:
    """Keeps an `open_drill` open in a task of its own: a fixture's two halves may run in different ones."""

    def __init__(self, **changes: Any) -> None:
        self._changes = changes
        self._close = asyncio.Event()
        self._opened: asyncio.Future[Drill] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._hold())

    async def drill(self) -> Drill:
        """Wait until the node is up."""
        await asyncio.wait({self._opened, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not self._opened.done():
            await self._task
        return self._opened.result()

    async def close(self) -> None:
        """End the node."""
        self._close.set()
        await self._task

    async def _hold(self) -> None:
        async with open_drill(**self._changes) as drill:
            self._opened.set_result(drill)
            await self._close.wait()


def processes_with(text: str) -> list[int]:
    """Return the processes of this machine whose command line holds `text`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in line:
                found.append(int(entry.name))
    return found


def exists(path: str | Path) -> bool:
    """Whether a path is there."""
    return Path(path).exists()


def is_there(pid: int) -> bool:
    """Whether a process exists, a zombie that nobody has reaped yet left out."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent(pid: int) -> int:
    """Return a process's parent; 0: it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


async def until(condition: Any, within_s: float = 10.0) -> bool:
    """Wait until a condition of the machine holds, which nothing tells us of."""
    end_at = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end_at:
            return False
        await asyncio.sleep(0.01)
    return True
