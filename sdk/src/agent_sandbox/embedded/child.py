"""One process that is kept alive: started, watched, restarted after a bounded pause, ended within a deadline."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from agent_sandbox.embedded.procs import ProcessId, die_with_parent, identify
from agent_sandbox.embedded.table import Kind, Row, RowState
from shared import logs
from shared.cluster import ClusterFailed, ServerProcess
from shared.service import Stop

log = logs.get(__name__)

PAUSE_FIRST_S = 0.2
PAUSE_MAX_S = 5.0
STEADY_S = 20.0
"""After running for so long, a process' next death is its first again."""
LOG_BYTES_MAX = 16 * 1024 * 1024
TAIL_BYTES = 4096


class Program(Protocol):
    """What can be kept alive."""

    name: str
    kind: Kind
    grace_s: float
    """From SIGTERM to SIGKILL."""

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process; it dies with ours. Raises OSError or ClusterFailed."""

    def is_ready(self) -> bool:
        """Return whether the running process says that it can work."""

    def last_words(self) -> str:
        """Return the end of what it wrote."""


class Server:
    """A nats-server."""

    kind: Kind = "server"
    grace_s = 5.0

    def __init__(self, server: ServerProcess) -> None:
        """Wrap a server of the cluster."""
        self.name = server.name
        self._server = server

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, or take it as it was started."""
        if not self._server.running:
            self._server.start(die_with_parent=True)
        assert self._server.popen is not None
        return self._server.popen

    def is_ready(self) -> bool:
        """Return True: the cluster is asked as a whole."""
        return True

    def last_words(self) -> str:
        """Return the server's own words."""
        return self._server.last_words()


class Service:
    """One of our services, or anything else with a log and a readiness file."""

    def __init__(
        self, name: str, kind: Kind, *, argv: tuple[str, ...], env: dict[str, str], log_file: Path
    ) -> None:
        """Describe it; nothing is started."""
        self.name = name
        self.kind: Kind = kind
        self.argv = argv
        self.env = env
        self.log_file = log_file
        self.ready_file: Path | None = None
        self.probes_file: Path | None = None
        """Holds the URL of its probes while it has them."""
        self.companion_ready_file: Path | None = None
        """Likewise of the process that it keeps beside it."""
        self.grace_s = 5.0
        self.on_parent_death = signal.SIGKILL

    def __eq__(self, other: object) -> bool:
        """Return whether the other would start the very same process."""
        return isinstance(other, Service) and (self.argv, self.env) == (other.argv, other.env)

    def __hash__(self) -> int:
        """Hash by name: equal services have the same."""
        return hash(self.name)

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, its output appended to its log."""
        for file in (self.ready_file, self.probes_file, self.companion_ready_file):
            if file is not None:
                file.unlink(missing_ok=True)
        trim_log(self.log_file)
        descriptor = os.open(
            self.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        try:
            return subprocess.Popen(
                self.argv,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                preexec_fn=die_with_parent(self.on_parent_death),  # noqa: PLW1509 - two system calls, one thread
            )
        finally:
            os.close(descriptor)

    def is_ready(self) -> bool:
        """Return whether its readiness file is there, and its companion's."""
        files = (self.ready_file, self.companion_ready_file)
        return all(file is None or file.exists() for file in files)

    def last_words(self) -> str:
        """Return the last lines of its log."""
        return last_words(last_lines(self.log_file, 3))


class Child:
    """Keeps one process."""

    def __init__(self, program: Program, changed: Callable[[], None]) -> None:
        """Start nothing yet.

        Args:
            program: what to run.
            changed: called after each change of `row`.
        """
        self.program = program
        self.row = Row(name=program.name, kind=program.kind)
        self.deaths = 0
        """Deaths in a row."""
        self._changed = changed
        self._stop = Stop()
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the process runs and says that it can work."""
        return self.row.state == "running" and self.program.is_ready()

    async def keep(self) -> None:
        """Run the process until `stop`, starting it again whenever it ends."""
        while not self._stop.is_set:
            started = time.monotonic()
            how = await self._run_once()
            if self._stop.is_set:
                break
            self.deaths = 1 if time.monotonic() - started > STEADY_S else self.deaths + 1
            pause_s = min(PAUSE_FIRST_S * 2 ** (self.deaths - 1), PAUSE_MAX_S)
            log.warning("process.died", name=self.program.name, how=how, pause_s=pause_s)
            self._set("restarting", None, last_exit=how)
            await self._stop.wait(pause_s)
        self._set("stopped", None)

    def restart(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Have the process end; `keep` starts it again."""
        if self._popen is not None and self._popen.poll() is None:
            self._popen.send_signal(number)

    async def stop(self) -> None:
        """End the process: SIGTERM, SIGKILL after its grace; returns when it is gone."""
        self._stop.set("stop")
        popen = self._popen
        if popen is None or popen.poll() is not None:
            return
        popen.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self.program.grace_s):
                await wait_exit(popen)
        except TimeoutError:
            log.warning("process.killed", name=self.program.name, grace_s=self.program.grace_s)
            popen.kill()
            await wait_exit(popen)

    async def _run_once(self) -> str:
        """Start the process and wait for its end; return how it ended, in words."""
        try:
            self._popen = self.program.start()
        except (OSError, ClusterFailed) as exc:
            return f"cannot start: {exc}"
        self._set("running", identify(self._popen.pid))
        return describe_exit(await wait_exit(self._popen))

    def _set(self, state: RowState, process: ProcessId | None, *, last_exit: str = "") -> None:
        self.row = msgspec.structs.replace(
            self.row,
            state=state,
            process=process,
            started_ms=int(time.time() * 1000) if state == "running" else self.row.started_ms,
            last_exit=last_exit or self.row.last_exit,
            restarts=self.row.restarts + (state == "restarting"),
        )
        self._changed()


async def wait_exit(popen: subprocess.Popen[bytes]) -> int:
    """Wait until the process has ended and return its exit code; negative: the signal."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        descriptor = os.pidfd_open(popen.pid)
    except ProcessLookupError:  # reaped already
        return popen.wait()
    try:
        loop.add_reader(descriptor, ended.set)
        await ended.wait()  # for as long as the process runs: that is what a supervisor is for
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return popen.wait()


def describe_exit(code: int) -> str:
    """Return how a process ended, in words."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


def last_lines(path: Path, lines: int) -> str:
    """Return the last lines of a log, joined by newlines; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])


def last_words(lines: str) -> str:
    """Return what a person should read of a log's last lines: of our own JSON lines the error, else the last line."""
    said = ""
    for line in lines.splitlines():
        try:
            fields = msgspec.json.decode(line, type=dict[str, object])
        except (msgspec.DecodeError, msgspec.ValidationError):
            said = line
            continue
        if fields.get("level") in ("error", "critical"):
            why = (
                fields.get("error") or str(fields.get("exception", "")).strip().rpartition("\n")[2]
            )
            said = f"{fields.get('event', '')}: {why}".strip(": ")
    return said


def trim_log(path: Path) -> None:
    """Start a log afresh when it has grown too large; its processes append, so they may have it open."""
    if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
        os.truncate(path, 0)
