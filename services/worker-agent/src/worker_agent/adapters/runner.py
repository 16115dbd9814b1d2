"""The sidecar's client of the runner in the sandbox.

One task and one file operation at a time, side by side. Callbacks are awaited in order and hold up nothing but the
task or file that they belong to: while one waits, the runner stops sending data for it (and user code blocks once its
pipe is full), but answers and ends still arrive. Whatever the sandbox does, at most one window of data is held for each.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable

import msgspec

from sandbox_runner import protocol
from worker_agent.adapters import runner_messages as messages
from worker_agent.adapters.runner_files import RunnerFiles
from worker_agent.adapters.runner_messages import (
    Exit,
    FileFailed,
    Hello,
    Listing,
    ProtocolViolation,
    Run,
    RunnerLimits,
    RunnerLost,
)
from worker_agent.adapters.runner_terminal import RunnerTerminal
from worker_agent.adapters.runner_wire import Flow, Running, Watch, Wire

__all__ = [
    "Exit", "FileFailed", "Hello", "Listing", "ProtocolViolation", "Run", "RunnerChannel", "RunnerLimits", "RunnerLost",
    "Watch",
]  # fmt: skip

_CLOSE_S = 1.0


class RunnerChannel:
    """A connection to one runner. After a RunnerLost it is of no use: the pod must end."""

    files: RunnerFiles
    """File operations: `write`, `read`, `list`, `remove`."""
    terminal: RunnerTerminal
    """Of the task that runs, where it has one: `type`, `resize`."""
    hello: Hello
    """What the runner said of itself."""
    on_leaving: Callable[[], None] | None = None
    leaving = False
    """Whether the sandbox's container was asked to end; `on_leaving` is called then, perhaps often."""

    def __init__(self, limits: RunnerLimits) -> None:
        """Use `open`."""
        self._limits = limits
        self._wire = Wire(self._on_frame, self._on_lost)
        self._hello: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._lost: asyncio.Future[RunnerLost] = asyncio.get_running_loop().create_future()
        self._running: Running | None = None
        self._thawed = asyncio.Event()
        self._thawed.set()
        self.files = RunnerFiles(self._wire, limits)
        self.terminal = RunnerTerminal(self._wire)

    @classmethod
    async def open(cls, channel_fd: int, limits: RunnerLimits | None = None) -> RunnerChannel:
        """Take a connected socket over and wait for the runner to say HELLO.

        Args:
            channel_fd: stream socket; closed with the channel, also when this fails.
            limits: how long the runner may take.

        Raises:
            RunnerLost: it said nothing, or nothing sensible.
        """
        channel = cls(limits or RunnerLimits())
        sock = socket.socket(fileno=channel_fd)
        sock.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: channel._wire, sock=sock)
        try:
            async with asyncio.timeout(channel._limits.hello_s):
                channel.hello = await asyncio.shield(channel._hello)
        except TimeoutError as exc:
            await channel.close()
            raise RunnerLost(f"no HELLO within {channel._limits.hello_s} s") from exc
        except BaseException:
            await channel.close()
            raise
        return channel

    @property
    def lost(self) -> RunnerLost | None:
        """Why the channel has ended; None while it stands."""
        return self._wire.failure

    async def wait_lost(self) -> RunnerLost:
        """Wait until the channel ends, for whatever reason; return the reason. For one supervisor to sit on."""
        return await asyncio.shield(self._lost)

    async def ready(self) -> None:
        """Wait until the runner takes a task: the one before is gone, and nothing is frozen."""
        if self._running is not None:  # a cancelled run's; its own timer bounds this wait
            await self._running.flow.ended.wait()
        await self._thawed.wait()

    async def run(self, run: Run, watch: Watch) -> Exit:
        """Run a task to its end. There is no time limit here: the caller bounds it by `stop`.

        Cancelling the call kills the task; the next `run` waits until it is gone. While frozen it waits for `thaw`.

        Args:
            run: what to do.
            watch: callbacks; an exception of theirs kills the task and comes out of this call.

        Returns:
            How it ended; all of its output was given to `watch` before.

        Raises:
            RunnerLost: the sandbox ended, froze up or misbehaved: the task may have happened in part.
            ValueError: the task does not fit into one frame.
        """
        await self.ready()
        frame = messages.encode(protocol.RUN, run)
        flow = Flow(f"task {run.task}", self._acknowledge)
        running = Running(run.task, flow)
        self._wire.send(frame)
        self._running = running
        if run.tty is not None:
            running.in_terminal = True
            self.terminal.begin(run.task)
        running.arm(self._limits.start_s, lambda: self._not_begun(running))
        try:
            return await self._follow(running, watch)
        finally:
            if not flow.ended.is_set():
                flow.drop()
                self.stop(0.0)

    def prepare_python(self) -> None:
        """Say that a `python` task is about to come: the runner forks its interpreter while we are still busy.

        Worth 2 ms to the session's first one; does nothing where an interpreter lives. May be called at any time.
        """
        if self._wire.failure is None:
            self._wire.send(protocol.encode(protocol.PREPARE))

    def stop(self, grace_s: float) -> None:
        """End the task that runs, if any: SIGINT to its process group now, SIGKILL after `grace_s` (0: at once).

        In a terminal it is SIGHUP, to the foreground's processes as well: a shell takes SIGINT for a line not wanted.
        Returns at once; `run` tells the end. A task that does not end even then ends the channel.
        """
        running = self._running
        if running is None or self._wire.failure is not None:
            return
        running.stopping = True
        if grace_s > 0:
            self.signal(signal.SIGHUP if running.in_terminal else signal.SIGINT)
            running.arm(grace_s, lambda: self.stop(0.0))
        else:
            self.signal(signal.SIGKILL)
            running.arm(self._limits.kill_s, lambda: self._outlived(running))

    def hang_up(self) -> None:
        """Tell the programs in the running task's terminal, if it has one, that whoever sat there has left."""
        if self._running is not None and self._running.in_terminal:
            self.signal(signal.SIGHUP)

    def signal(self, number: int) -> None:
        """Send a signal to the running task's process group; to nobody when none runs."""
        if self._running is not None and self._wire.failure is None:
            request = {"task": self._running.task, "signal": int(number)}
            self._wire.send(messages.encode(protocol.SIGNAL, request))

    async def freeze(self) -> None:
        """Stop every user process; files can still be read and written. A `run` waits until `thaw`.

        Raises:
            RunnerLost: no answer.
        """
        self._thawed.clear()
        await self.files.request(protocol.FREEZE)

    async def thaw(self) -> None:
        """Let user processes go on.

        Raises:
            RunnerLost: no answer.
        """
        await self.files.request(protocol.THAW)
        self._thawed.set()

    def lease(self, until_ns: int) -> None:
        """Let user code run until a moment by `CLOCK_BOOTTIME`, nanoseconds, in a sandbox that was started to need that."""
        if self._wire.failure is None:
            self._wire.send(messages.encode(protocol.LEASE, {"until_ns": until_ns}))

    def cut(self, why: str) -> None:
        """End the sandbox at once, without a word: its runner kills everything and exits when the channel is gone."""
        self._wire.fail(RunnerLost(why))

    async def close(self) -> None:
        """End the sandbox: the runner kills everything and exits. Returns within a second."""
        await self._wire.close(_CLOSE_S)

    async def _follow(self, running: Running, watch: Watch) -> Exit:
        while True:
            kind, payload = await running.flow.get()
            if kind == protocol.STARTED and running.started_ns is not None:
                await watch.started(running.started_ns)
            elif kind == protocol.EXIT and running.exit is not None:
                return running.exit
            else:
                await watch.output(messages.STREAMS[kind], payload)
                running.flow.used(kind, payload)

    def _acknowledge(self, cost: int) -> None:
        if self._wire.failure is None:
            self._wire.send(protocol.encode_count(protocol.ACK_OUTPUT, cost))

    def _not_begun(self, running: Running) -> None:
        if self._thawed.is_set():
            late = f"task {running.task} did not begin within {self._limits.start_s} s"
            self._wire.fail(RunnerLost(late))
        else:
            running.arm(self._limits.start_s, lambda: self._not_begun(running))

    def _outlived(self, running: Running) -> None:
        if running.flow.held_bytes:  # not its fault: nobody takes the output that comes before EXIT
            running.arm(self._limits.kill_s, lambda: self._outlived(running))
        else:
            self._wire.fail(RunnerLost(f"task {running.task} did not end by SIGKILL"))

    def _on_lost(self, failure: RunnerLost) -> None:
        if not self._lost.done():
            self._lost.set_result(failure)
        if not self._hello.done():
            self._hello.set_exception(failure)
            self._hello.exception()  # read: nobody may be waiting for it any more
        if self._running is not None:
            self._running.disarm()
            self.terminal.end()
            self._running.flow.fail(failure)
        self._thawed.set()  # whoever waits finds out
        self.files.fail(failure)

    def _on_frame(self, kind: int, payload: bytes) -> None:
        try:
            if kind == protocol.HELLO:
                self._on_hello(messages.hello.decode(payload))
            elif not self._hello.done():
                raise ProtocolViolation("the first frame was not HELLO")
            elif kind in (protocol.STARTED, protocol.STDOUT, protocol.STDERR, protocol.EXIT):
                self._on_task_frame(kind, payload)
            elif kind == protocol.INPUT_USED:
                self.terminal.on_used(payload)
            elif kind == protocol.NEED_TERMINAL:
                self.terminal.on_need()
            elif kind == protocol.LEAVING:
                self.leaving = True
                if self.on_leaving is not None:
                    self.on_leaving()
            else:
                self.files.on_frame(kind, payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise ProtocolViolation(f"a frame of kind {kind} can't be read: {exc}") from exc

    def _on_hello(self, hello: Hello) -> None:
        if self._hello.done() or hello.version != protocol.VERSION:
            raise ProtocolViolation(f"HELLO again, or of version {hello.version}")
        self._hello.set_result(hello)

    def _on_task_frame(self, kind: int, payload: bytes) -> None:
        running = self._running
        if running is None:
            raise ProtocolViolation(f"a frame of kind {kind}, but no task runs")
        if kind == protocol.STARTED:
            started = messages.started.decode(payload)
            if started.task != running.task or running.started_ns is not None:
                raise ProtocolViolation("STARTED for another task, or again")
            if not running.stopping:
                running.disarm()
            running.started_ns = started.at_ns
            self.terminal.started()
            running.flow.put(kind, b"")
        elif kind == protocol.EXIT:
            end = messages.exited.decode(payload)
            if end.task != running.task or (end.error is None and running.started_ns is None):
                raise ProtocolViolation("EXIT for another task, or before STARTED")
            running.disarm()
            self.terminal.end()
            running.exit = end
            self._running = None
            running.flow.finish(kind, b"")
        elif running.started_ns is None:
            raise ProtocolViolation("output before STARTED")
        else:
            running.flow.put_data(kind, payload)
