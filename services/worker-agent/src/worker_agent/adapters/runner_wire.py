"""Frames over the sandbox's socket, and the bounded buffers between them and whoever uses them.

The wire is read at all times: data is bounded by the window that the runner was given, and whoever sends beyond it, or
anything that nobody asked for, ends the pod. So an answer is never stuck behind output that nobody takes.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple

from sandbox_runner import protocol
from worker_agent.adapters.runner_messages import Exit, ProtocolViolation, RunnerLost

_ACK_BYTES = protocol.WINDOW_BYTES // 4
_WRITE_BUFFER_BYTES = 256 * 1024


class Wire(asyncio.Protocol):
    """The socket: frames out, frames in, and the one reason for which it ended."""

    def __init__(
        self, on_frame: Callable[[int, bytes], None], on_lost: Callable[[RunnerLost], None]
    ) -> None:
        """Wait for a connection.

        Args:
            on_frame: called with each frame; may raise ProtocolViolation.
            on_lost: called once, with the reason.
        """
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._decoder = protocol.Decoder(protocol.TO_SIDECAR)
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._ended = asyncio.Event()
        self.failure: RunnerLost | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        self._transport = transport
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Cut frames and hand them on."""
        try:
            for kind, payload in self._decoder.feed(data):
                if self.failure is not None:
                    return
                self._on_frame(kind, payload)
        except ProtocolViolation as exc:
            self.fail(exc)
        except protocol.FrameError as exc:
            self.fail(ProtocolViolation(str(exc)))

    def pause_writing(self) -> None:
        """The runner reads more slowly than we write."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The runner is gone, or `fail` has closed the socket."""
        self._ended.set()
        self.fail(RunnerLost(f"the sandbox has closed its channel{f': {exc}' if exc else ''}"))

    def send(self, frame: bytes) -> None:
        """Queue a frame.

        Raises:
            RunnerLost: there is nobody any more.
        """
        if self.failure is not None or self._transport is None:
            raise self.failure or RunnerLost("not connected")
        self._transport.write(frame)

    @property
    def is_flushed(self) -> bool:
        """Whether all that was sent is on its way."""
        return self._transport is not None and self._transport.get_write_buffer_size() == 0

    def send_with(self, frame: bytes, fds: Sequence[int]) -> None:
        """Send a frame that carries descriptors, at once; only when `is_flushed`. They stay the caller's.

        Raises:
            RunnerLost: there is nobody any more.
        """
        if self.failure is not None or self._transport is None:
            raise self.failure or RunnerLost("not connected")
        with self._transport.get_extra_info("socket").dup() as sock:
            try:
                sent = socket.send_fds(sock, [frame], list(fds))
            except (
                OSError
            ) as exc:  # nothing is queued, so that there is room: the other end has closed
                self.fail(RunnerLost(f"the sandbox takes no descriptors: {exc.strerror or exc}"))
                return
        self._transport.write(frame[sent:])

    async def drain(self, timeout_s: float) -> None:
        """Wait until the runner has taken most of what was sent.

        Raises:
            RunnerLost: it does not, or is gone.
        """
        if not self._writable.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    await self._writable.wait()
            except TimeoutError as exc:
                self.fail(RunnerLost(f"the sandbox took no data for {timeout_s} s"))
                raise self.failure or RunnerLost("stalled") from exc
        if self.failure is not None:
            raise self.failure

    def fail(self, failure: RunnerLost) -> None:
        """End it for this reason; the first one counts."""
        if self.failure is not None:
            return
        self.failure = failure
        self._writable.set()
        if self._transport is not None:
            self._transport.abort()
        self._on_lost(failure)

    async def close(self, timeout_s: float) -> None:
        """Say BYE and close; whoever still waits is told that the channel was closed. Returns once the socket is."""
        if self._transport is None:
            return
        if self.failure is None:
            self._transport.write(protocol.encode(protocol.BYE))
            self._transport.close()
            self.failure = RunnerLost("the channel was closed")
            self._writable.set()
            self._on_lost(self.failure)
        try:
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        except TimeoutError:  # BYE did not fit: the sandbox takes nothing any more
            self._transport.abort()
            await self._ended.wait()  # in the loop's next round, whatever the sandbox does


class Flow:
    """Frames of one task or one file operation, in order, until its last; never more than a window."""

    def __init__(self, name: str, acknowledge: Callable[[int], None]) -> None:
        """Hold nothing yet.

        Args:
            name: what it is, for messages.
            acknowledge: gives the runner this much of its window back.
        """
        self.name = name
        self._acknowledge = acknowledge
        self._frames: deque[tuple[int, bytes]] = deque()
        self._arrived = asyncio.Event()
        self._held_bytes = 0
        self._unacknowledged_bytes = 0
        self._dropping = False
        self._failure: RunnerLost | None = None
        self.ended = asyncio.Event()
        """Set with the last frame, or the end of the channel."""

    def put_data(self, kind: int, payload: bytes) -> None:
        """Take in a frame that counts against the window.

        Raises:
            ProtocolViolation: it is empty, or beyond the window.
        """
        cost = protocol.cost_bytes(payload)
        self._held_bytes += cost
        if not payload or self._held_bytes > protocol.WINDOW_BYTES:
            raise ProtocolViolation(f"{self.name}: data beyond what was allowed")
        if self._dropping:
            self._give_back(cost)
        else:
            self.put(kind, payload)

    def put(self, kind: int, payload: bytes) -> None:
        """Take in a frame that comes at most once."""
        if not self._dropping:
            self._frames.append((kind, payload))
            self._arrived.set()

    def finish(self, kind: int, payload: bytes) -> None:
        """Take in the last frame."""
        self.put(kind, payload)
        self.ended.set()

    def fail(self, failure: RunnerLost) -> None:
        """There will be no more."""
        self._failure = failure
        self.ended.set()
        self._arrived.set()

    def drop(self) -> None:
        """Nobody is interested any more: take the rest in and forget it."""
        self._dropping = True
        while self._frames:
            self.used(*self._frames.popleft())

    async def get(self) -> tuple[int, bytes]:
        """Wait for the next frame. Once it has been used, say so by `used`.

        Raises:
            RunnerLost: there will be none. What had arrived before is given out first.
        """
        while not self._frames:
            if self._failure is not None:
                raise self._failure
            self._arrived.clear()
            await self._arrived.wait()
        return self._frames.popleft()

    @property
    def held_bytes(self) -> int:
        """What has arrived and was not used yet."""
        return self._held_bytes

    def used(self, kind: int, payload: bytes) -> None:
        """Give the window of a frame from `get` back."""
        if kind in (protocol.STDOUT, protocol.STDERR, protocol.DATA):
            self._give_back(protocol.cost_bytes(payload))

    def _give_back(self, cost: int) -> None:
        self._held_bytes -= cost
        self._unacknowledged_bytes += cost
        if self._unacknowledged_bytes >= _ACK_BYTES and not self.ended.is_set():
            self._acknowledge(self._unacknowledged_bytes)
            self._unacknowledged_bytes = 0


class Watch(NamedTuple):
    """Who hears of a task while it runs."""

    started: Callable[[int], Awaitable[None]]
    """Wall clock in ns, by the sandbox's machine, at which the first instruction of user code ran."""
    output: Callable[[Literal["stdout", "stderr"], bytes], Awaitable[None]]
    """A piece of output, up to 64 KiB."""


class Running:
    """The task that the runner has in hand."""

    def __init__(self, task: str, flow: Flow) -> None:
        """Nothing is known of it yet."""
        self.task = task
        self.flow = flow
        self.started_ns: int | None = None
        self.exit: Exit | None = None
        self.stopping = False
        self.in_terminal = False
        self.timer: asyncio.TimerHandle | None = None

    def arm(self, delay_s: float, call: Callable[[], None]) -> None:
        """Set the one timer that watches over it."""
        self.disarm()
        self.timer = asyncio.get_running_loop().call_later(delay_s, call)

    def disarm(self) -> None:
        """Take it off."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
