"""One nats-server process: start, stop, kill, pause. Plain and synchronous, so that any supervisor can hold it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from shared.cluster.errors import ClusterFailed
from shared.cluster.layout import ServerFiles
from shared.cluster.ports import LOOPBACK, ServerPorts, why_taken

LOG_LINES_SHOWN = 5
_PR_SET_PDEATHSIG = 1
SERVER_NICENESS = -10


class ServerProcess:
    """One server of a cluster. `popen` is the running process, if this object started one."""

    host = LOOPBACK
    """Where the other servers and its monitoring find it."""

    def __init__(self, binary: Path, files: ServerFiles, ports: ServerPorts) -> None:
        """Describe a server; nothing is started yet."""
        self.binary = binary
        self.files = files
        self.ports = ports
        self.popen: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def name(self) -> str:
        """The server's name in the cluster."""
        return self.files.name

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{self.host}:{self.ports.client}"

    @property
    def running(self) -> bool:
        """Whether the process that this object started still runs (paused counts as running)."""
        return self.popen is not None and self.popen.poll() is None

    def start(self, *, die_with_parent: bool = False) -> None:
        """Start the server. It answers a little later; `check` tells if it gave up instead.

        Args:
            die_with_parent: have the kernel kill it when the thread that starts it ends (tests).

        Raises:
            ClusterFailed: it runs already, a port is taken, or the program cannot be started.
        """
        if self.running:
            raise ClusterFailed(f"{self.name} runs already")
        stray = running_pid(self.files)
        if stray is not None:
            raise ClusterFailed(
                f"{self.name} runs already, as process {stray}, from {self.files.folder}"
            )
        for use, port in self.ports.named():
            why = why_taken(port)
            if why is not None:
                raise ClusterFailed(
                    f"port {port} ({use} of {self.name}) {why}: stop what uses it, or choose another base port"
                )
        try:
            self._log_start = self.files.log.stat().st_size if self.files.log.exists() else 0
            with self.files.output.open("wb") as output:
                self.popen = subprocess.Popen(
                    [str(self.binary), "-c", str(self.files.config)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    # An interrupt at the terminal is for the supervisor, which stops servers last.
                    start_new_session=True,
                    preexec_fn=_before_exec(die_with_parent=die_with_parent),  # noqa: PLW1509 - two system calls
                )
            self.files.pid.write_text(f"{self.popen.pid}\n")
        except OSError as exc:
            raise ClusterFailed(f"{self.name} cannot be started: {exc}") from exc

    def check(self) -> None:
        """Raise if the server ended by itself.

        Raises:
            ClusterFailed: with the server's own last words.
        """
        if self.popen is None:
            raise ClusterFailed(f"{self.name} was not started")
        code = self.popen.poll()
        if code is not None:
            raise ClusterFailed(f"{self.name} ended with code {code}: {self.last_words()}")

    def last_words(self) -> str:
        """Return the fatal lines that the server wrote since its start, else its last ones."""
        lines = _tail(self.files.output, 0) + _tail(self.files.log, self._log_start)
        fatal = [
            line for line in lines if "[FTL]" in line or "[ERR]" in line or "nats-server:" in line
        ]
        shown = (fatal or lines)[-LOG_LINES_SHOWN:]
        return " | ".join(shown) or "it wrote nothing"

    def stop(self, *, grace_s: float = 5.0) -> None:
        """Ask the server to end (leaders are handed over), and kill it if it takes longer than `grace_s`."""
        if self.popen is None:
            return
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        try:
            self.popen.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self.files.pid.unlink(missing_ok=True)

    def kill(self) -> None:
        """Kill the server at once, as a crash would."""
        if self.popen is None:
            return
        self._signal(signal.SIGKILL)
        self.popen.wait(10)
        self.files.pid.unlink(missing_ok=True)

    def pause(self) -> None:
        """Stop the server's execution, as a hang would. Its connections stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.running and self.popen is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.popen.pid, number)


def running_pid(files: ServerFiles) -> int | None:
    """Return the number of a process that runs this folder's server, whoever started it."""
    try:
        pid = int(files.pid.read_text())
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if str(files.config).encode() in words else None


def _tail(path: Path, start: int) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(64 * 1024).decode(errors="replace").splitlines()
    except OSError:
        return []


def _before_exec(*, die_with_parent: bool) -> Callable[[], None]:
    """Return what a server's process does before it becomes the server: nothing but these calls runs there."""
    libc = ctypes.CDLL(None, use_errno=True)

    def prepare() -> None:
        if die_with_parent:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # All work waits for the servers' answers: where it is permitted (as root) they come first. Without this a
        # burst of 300 tasks let their answers take seconds, and what had no answer was tried again.
        libc.setpriority(os.PRIO_PROCESS, 0, SERVER_NICENESS)

    return prepare
