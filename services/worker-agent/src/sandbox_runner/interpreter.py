"""The runner's end of the Python interpreter that lives on from task to task: a forked child, and why it is fresh.

Between the two runs a socket with frames of their own. The child hosts user code, so that what it says is checked like any
other hostile input: bounded, in order, or the interpreter is killed.
"""

import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, NoReturn

from sandbox_runner import kernel, notebook, protocol
from sandbox_runner.channel import Channel
from sandbox_runner.command import StartError
from sandbox_runner.poller import Poller

_FRAME_BYTES_MAX = 64
_CRASHED = 70
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
        self, poller: Poller, workspace: str, hooks: Hooks, *, confine_signals: bool
    ) -> None:
        """Starts nothing: the child is forked with the first task.

        Args:
            poller: The loop that calls back.
            workspace: The interpreter's first working directory.
            hooks: Where to tell of progress.
            confine_signals: Put the child into a signal scope of its own.
        """
        self.pid: int | None = None
        self.generation = 0
        self._poller = poller
        self._workspace = workspace
        self._hooks = hooks
        self._confine_signals = confine_signals
        self._control: Channel | None = None
        self._outputs: tuple[int, int] | None = None
        self._running = False
        self._why_fresh = _FIRST

    def run(self, order: notebook.Order, payload: bytes) -> str | None:
        """Gives a task to the interpreter, a new one if need be.

        Args:
            order: The decoded task.
            payload: The same as it came, to pass on to an interpreter that runs already.

        Returns:
            Why the interpreter is fresh; None: it has run tasks before.

        Raises:
            StartError: There's no room for another process.
        """
        self._close_outputs()
        fresh = None
        if self.pid is None:
            self._fork(order)
            self.generation += 1
            fresh = self._why_fresh
        elif self._control is not None:
            self._control.send(protocol.RUN, payload)
        self._running = True
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
            The pipes of a task that had been given out but not begun; they are the caller's now.
        """
        self._why_fresh = f"generation {self.generation} of the interpreter {why}"
        if self._control is not None:
            self._control.close()
            self._control = None
        outputs, self._outputs = self._outputs, None
        self._running = False
        return outputs

    def _fork(self, order: notebook.Order) -> None:
        ours, theirs = socket.socketpair()
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            for fd in (out_read, out_write, err_read, err_write):
                os.close(fd)
            ours.close()
            theirs.close()
            raise StartError("exec_no_resources", f"python: {error.strerror}") from error
        if pid == 0:
            self._become(theirs.detach(), (out_write, err_write), order)
        os.close(out_write)
        os.close(err_write)
        theirs.close()
        self.pid = pid
        self._outputs = (out_read, err_read)
        decoder = protocol.Decoder(
            frozenset((notebook.PIPES, notebook.BEGUN, notebook.ENDED)), _FRAME_BYTES_MAX
        )
        self._control = Channel(ours.detach(), self._poller, decoder, self._on_frame, self._on_lost)

    def _become(self, control: int, outputs: tuple[int, int], order: notebook.Order) -> NoReturn:
        """Runs in the child: turns it from a copy of the runner into a process of the user's."""
        code = _CRASHED
        try:
            os.setsid()
            fds = notebook.take_over(control, outputs)
            if self._confine_signals:
                kernel.enter_signal_scope()
            kernel.set_dumpable(
                True
            )  # from here on there is nothing of the runner's to protect: a user's process
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            code = notebook.Notebook(fds, self._workspace).serve(order)
        except BaseException:  # noqa: BLE001 - nothing may return into the copy of the runner
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def _on_frame(self, kind: int, payload: bytes) -> None:
        try:
            if kind == notebook.PIPES and self._running and self._outputs is None:
                self._open_outputs(*struct.unpack(">II", payload))
            elif kind == notebook.BEGUN and self._running and self._outputs is not None:
                outputs, self._outputs = self._outputs, None
                self._hooks.started(struct.unpack(">Q", payload)[0], outputs)
            elif kind == notebook.ENDED and self._running and self._outputs is None:
                self._running = False
                self._hooks.finished(struct.unpack(">B", payload)[0])
            else:
                self._kill()
        except (OSError, struct.error):
            self._kill()

    def _open_outputs(self, stdout: int, stderr: int) -> None:
        """Opens the pipes that the child has made for a task.

        Passing descriptors takes sendmsg, which a sandbox may forbid; a parent may always reopen its child's by /proc.
        """
        opened: list[int] = []
        for fd in (stdout, stderr):
            opened.append(
                os.open(f"/proc/{self.pid}/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            )
        self._outputs = (opened[0], opened[1])
        if self._control is not None:
            self._control.send(notebook.GO)

    def _on_lost(self, _why: str) -> None:
        """User code has closed the socket: the child ends by itself when the task does; at rest it's of no use any more."""
        if not self._running:
            self._kill()

    def _kill(self) -> None:
        if self.pid is not None:
            with suppress(
                ProcessLookupError
            ):  # a zombie is still there: this is for kernels that differ
                os.kill(self.pid, signal.SIGKILL)

    def _close_outputs(self) -> None:
        for fd in self._outputs or ():
            os.close(fd)
        self._outputs = None
