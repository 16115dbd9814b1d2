"""The runner's end of the Python interpreter that lives on from task to task: a forked child, and why it is fresh.

Between the two runs a socket with frames of their own. The child hosts user code, so that what it says is checked like any
other hostile input: bounded, in order, or the interpreter is killed.
"""

import errno
import os
import signal
import socket
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, NoReturn

from sandbox_runner import kernel, notebook, protocol
from sandbox_runner.birthplace import Birthplace
from sandbox_runner.channel import Channel
from sandbox_runner.command import no_resources
from sandbox_runner.poller import Poller

_FRAME_BYTES_MAX = 64
_CRASHED = 70
_RESTING, _GIVEN, _BEGUN = range(3)
_TO_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_FIRST = "no interpreter was running in this sandbox yet"


class Hooks(NamedTuple):
    """What the interpreter tells the loop about the task that runs in it."""

    started: Callable[[int, tuple[int, int]], None]
    """Time (ns since the epoch) and the read ends of the task's pipes: the first instruction is about to run."""
    finished: Callable[[int], None]
    """The code has come to its end: exit code."""


class Interpreter:
    """At most one living child; a dead one is replaced at the next task, which hears why."""

    def __init__(
        self, poller: Poller, workspace: str, hooks: Hooks, birthplace: Birthplace
    ) -> None:
        """Starts nothing: the child is forked with the first task.

        Args:
            poller: The loop that calls back.
            workspace: The interpreter's first working directory.
            hooks: Where to tell of progress.
            birthplace: Where the child is forked.
        """
        self.pid: int | None = None
        self.generation = 0
        self._poller = poller
        self._workspace = workspace
        self._hooks = hooks
        self._birthplace = birthplace
        self._control: Channel | None = None
        self._outputs: tuple[int, int] | None = None
        self._stage = _RESTING
        self._why_fresh = _FIRST
        self._fresh: str | None = None

    def prepare(self, *, ahead: bool = True) -> None:
        """Forks the child, if there's none.

        Args:
            ahead: There's no task for it yet: it has time to warm up.

        Raises:
            StartError: There's no room for another process.
        """
        if self.pid is None:
            self._fork(ahead)
            self.generation += 1
            self._fresh = self._why_fresh

    def run(self, payload: bytes) -> str | None:
        """Gives a task to the interpreter, a new one if need be.

        Args:
            payload: RUN's, as it came.

        Returns:
            Why the interpreter is fresh; None: it has run tasks before.

        Raises:
            StartError: There's no room for another process.
        """
        self.prepare(ahead=False)
        fresh, self._fresh = self._fresh, None
        self._stage = _GIVEN
        if self._control is not None:
            self._control.send(protocol.RUN, payload)
        return fresh

    def reaped(self) -> None:
        """The child is gone: its number means nothing any more. Takes in what it has still said; `died` comes next."""
        self.pid = None
        if self._control is not None:
            self._control.read_now()

    def died(self, why: str) -> tuple[int, int] | None:
        """Takes note that the child is gone.

        Args:
            why: What ended it; the next task is told.

        Returns:
            The pipes that no task has used yet; they are the caller's now.
        """
        self._why_fresh = f"generation {self.generation} of the interpreter {why}"
        if self._control is not None:
            self._control.close()
            self._control = None
        outputs, self._outputs = self._outputs, None
        self._stage = _RESTING
        return outputs

    def _fork(self, ahead: bool) -> None:
        ours, theirs = socket.socketpair()
        try:
            pid = self._birthplace.bear(lambda: self._fork_child(theirs, ahead))
        except OSError as error:
            ours.close()
            theirs.close()
            raise no_resources("python", error) from error
        theirs.close()
        self.pid = pid
        decoder = protocol.Decoder(
            frozenset((notebook.PIPES, notebook.BEGUN, notebook.ENDED)), _FRAME_BYTES_MAX
        )
        self._control = Channel(ours.detach(), self._poller, decoder, self._on_frame, self._on_lost)

    def _fork_child(self, control: socket.socket, ahead: bool) -> int:
        return os.fork() or self._become(control.detach(), ahead)

    def _become(self, control: int, ahead: bool) -> NoReturn:
        """Runs in the child: turns it from a copy of the runner into a process of the user's."""
        try:
            os.setsid()
            self._birthplace.settle()
            fds = notebook.take_over(control)
            # From here on it is a user's process: there is nothing of the runner's to protect.
            kernel.set_dumpable(True)
            interpreter = notebook.Notebook(fds, self._workspace)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            if ahead:
                interpreter.warm_up()
            code = interpreter.serve()
        except BaseException:  # noqa: BLE001 - nothing may return into the copy of the runner
            os._exit(_CRASHED)
        os._exit(code)

    def _on_frame(self, kind: int, payload: bytes) -> None:
        try:
            if kind == notebook.PIPES and self._outputs is None:
                self._open_outputs(*struct.unpack(">II", payload))
            elif kind == notebook.BEGUN and self._stage == _GIVEN and self._outputs is not None:
                self._stage = _BEGUN
                outputs, self._outputs = self._outputs, None
                self._hooks.started(struct.unpack(">Q", payload)[0], outputs)
            elif kind == notebook.ENDED and self._stage == _BEGUN:
                self._stage = _RESTING
                self._hooks.finished(struct.unpack(">B", payload)[0])
            else:
                self._kill()
        except (OSError, struct.error):
            self._kill()

    def _open_outputs(self, stdout: int, stderr: int) -> None:
        """Opens the pipes that the child has made for a task.

        Passing descriptors takes sendmsg, which a sandbox may forbid; a parent may always reopen its child's by /proc.
        """
        ours = _open_pipe(f"/proc/{self.pid}/fd/{stdout}")
        try:
            self._outputs = (ours, _open_pipe(f"/proc/{self.pid}/fd/{stderr}"))
        except OSError:
            os.close(ours)
            raise
        if self._control is not None:
            self._control.send(notebook.GO)

    def _on_lost(self, _why: str) -> None:
        """User code has closed the socket: the child ends by itself when its task does; without one it's of no use."""
        if self._stage != _BEGUN:
            self._kill()

    def _kill(self) -> None:
        if self.pid is not None:
            # A zombie can still be signalled; this is for kernels that differ.
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _open_pipe(path: str) -> int:
    fd = os.open(path, _TO_READ)
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):  # user code may name any descriptor of its own
        os.close(fd)
        raise OSError(errno.EINVAL, "not a pipe")
    return fd
