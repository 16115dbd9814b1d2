"""A real runner in a process of its own, and the sidecar's channel to it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shared.testing.plugin import Connect
from worker_agent.adapters.runner import Exit, Run, RunnerChannel, RunnerLimits, Watch
from worker_agent.loops import commit, hold_session, keep_files, restore

KIT = str(Path(__file__).parent / "kit")
if KIT not in sys.path:
    sys.path.insert(0, KIT)  # what several test modules share

import checkpointing  # noqa: E402 -- found by the line above
import holding  # noqa: E402 -- likewise

AS_PID_1 = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
AS_USER = """
import os, resource, sys
from sandbox_runner import __main__
os.setgroups([])
os.setgid({user})
os.setuid({user})
resource.setrlimit(resource.RLIMIT_NPROC, ({processes}, {processes}))
sys.exit(__main__._run(sys.argv[1:]))
"""
"""A runner of another user, who may not read the interpreter's files: what it needs of them is read before."""
LIMITS = RunnerLimits(hello_s=20, start_s=20, kill_s=5, reply_s=20)


class Outcome(NamedTuple):
    """A task's end and all that it wrote."""

    exit: Exit
    stdout: bytes
    stderr: bytes
    started_ns: list[int]


class Kit:
    """One sandbox: its process, its workspace, its channel."""

    processes_max = 8
    """What a user of its own may have."""

    def __init__(
        self, process: subprocess.Popen[bytes], workspace: Path, ours: socket.socket
    ) -> None:
        """Open the channel by `connect`."""
        self.process = process
        self.workspace = workspace
        self.socket = ours
        self.channel: RunnerChannel
        self.as_pid_1 = "unshare" in str(process.args)
        self.began = asyncio.Event()
        """Set with each task's start."""
        self.wrote = asyncio.Event()
        """Set from a task's first output until its end."""
        self._tasks = 0

    async def connect(self) -> Kit:
        """Become the sidecar."""
        self.channel = await RunnerChannel.open(self.socket.detach(), LIMITS)
        return self

    async def run(self, **fields: Any) -> Outcome:
        """Run a task and collect what it writes."""
        self._tasks += 1
        written: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        started: list[int] = []

        async def on_started(at_ns: int) -> None:
            started.append(at_ns)
            self.began.set()

        async def on_output(stream: str, data: bytes) -> None:
            written[stream].append(data)
            self.wrote.set()

        run = Run(task=f"t{self._tasks}", **fields)
        try:
            end = await self.channel.run(run, Watch(on_started, on_output))
        finally:
            self.wrote.clear()
        return Outcome(end, b"".join(written["stdout"]), b"".join(written["stderr"]), started)

    async def shell(self, line: str, **fields: Any) -> Outcome:
        """Run a line of shell."""
        return await self.run(kind="command", shell=line, **fields)

    async def python(self, code: str, **fields: Any) -> Outcome:
        """Run code in the interpreter."""
        return await self.run(kind="python", code=code, **fields)


Start = Callable[..., Kit]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts runners; ends each with all that it started."""
    kits: list[Kit] = []

    def start_one(
        *prefix: str, workspace: Path | None = None, user: int | None = None, leased: bool = False
    ) -> Kit:
        ours, theirs = socket.socketpair()
        if workspace is None:
            workspace = tmp_path / f"workspace-{len(kits)}"
            workspace.mkdir()
        module = ["-m", "sandbox_runner"]
        if user is not None:
            module = ["-c", AS_USER.format(user=user, processes=Kit.processes_max)]
        command = [*prefix, sys.executable, *module, "--fd", str(theirs.fileno())]
        process = subprocess.Popen(
            [*command, "--workspace", str(workspace), *(["--leased", "yes"] if leased else [])],
            pass_fds=[theirs.fileno()],
            env={"PATH": os.environ["PATH"], "SECRET": "of the node"},
        )
        theirs.close()
        kits.append(Kit(process, workspace, ours))
        return kits[-1]

    yield start_one
    for kit in kits:
        kit.socket.close()
        kit.process.send_signal(signal.SIGKILL if kit.as_pid_1 else signal.SIGTERM)
        kit.process.wait(10)


@pytest.fixture
async def runner(start: Start) -> AsyncIterator[Kit]:
    """A runner that is a plain process: it keeps itself apart from user code by a Landlock signal scope."""
    kit = await start().connect()
    yield kit
    await kit.channel.close()


@pytest.fixture(scope="session")
def as_pid_1() -> list[str]:
    """The command that makes another one the first process of a pid namespace."""
    prefix = [*AS_PID_1, *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], check=False).returncode:
        pytest.skip("no pid namespaces here")
    return prefix


@pytest.fixture
async def runner_as_pid_1(start: Start, as_pid_1: list[str]) -> AsyncIterator[Kit]:
    """A runner that is the first process of a pid namespace, as in a container."""
    kit = await start(*as_pid_1).connect()
    yield kit
    await kit.channel.close()


@pytest.fixture(params=["plain", "pid 1"])
def any_runner(request: pytest.FixtureRequest) -> Any:
    """Both ways to be confined, one after the other."""
    return request.getfixturevalue("runner" if request.param == "plain" else "runner_as_pid_1")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory with room for one mebibyte."""
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "small", place]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("root may not mount here")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def signal_scopes() -> None:
    """Skips where Landlock can't bound signals (before ABI 6)."""
    if ctypes.CDLL(None).syscall(444, None, 0, 1) < 6:
        pytest.skip("no Landlock signal scopes here")


@pytest.fixture
async def place(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> checkpointing.Place:
    """A node with a checkpointer, and a session's truth. Whoever waits there looks again soon."""
    for module, pause in (
        (commit, "RETRY_MAX_S"),
        (commit, "RETRY_MIN_S"),
        (hold_session, "RETRY_S"),
        (keep_files, "AGAIN_S"),
        (keep_files, "MARK_AFTER_S"),
        (restore, "AGAIN_S"),
    ):
        monkeypatch.setattr(module, pause, 0.01)
    checkpointer = checkpointing.Checkpointer(checkpointing.Store(), tmp_path)
    await checkpointer.serve(await connect(name="checkpointer"))
    bus = await connect(name="worker")
    return checkpointing.Place(
        lambda: checkpointing.Pod(tmp_path, bus), checkpointer, holding.FakeTruth()
    )
