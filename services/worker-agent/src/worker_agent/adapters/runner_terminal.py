"""The terminal of the task that runs: what is typed goes to the runner, no more at once than it said it would hold."""

from __future__ import annotations

import asyncio
import os

from sandbox_runner import protocol
from worker_agent.adapters import runner_messages as messages
from worker_agent.adapters.runner_messages import ProtocolViolation
from worker_agent.adapters.runner_wire import Wire

_AGAIN_S = 0.01


class RunnerTerminal:
    """At most one, of the running task."""

    def __init__(self, wire: Wire) -> None:
        """Speak over `wire`; there is none yet."""
        self._wire = wire
        self._task: str | None = None
        self._is_there = False
        self._size: tuple[int, int] | None = None
        self._out_bytes = 0
        self._may_ask = False
        self._sending: asyncio.TimerHandle | None = None

    def begin(self, task: str) -> None:
        """The next task to start has a terminal; until it has started, nobody can type into that."""
        self._task, self._out_bytes, self._may_ask = task, 0, True

    def started(self) -> None:
        """It has."""
        self._is_there = self._task is not None
        size, self._size = self._size, None
        if size is not None:
            self.resize(*size)

    def end(self) -> None:
        """It has ended."""
        self._task, self._is_there, self._size = None, False, None
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    @property
    def room_bytes(self) -> int:
        """What may be typed now."""
        if not self._is_there or self._wire.failure is not None:
            return 0
        return protocol.INPUT_WINDOW_BYTES - self._out_bytes

    def type(self, data: bytes) -> None:
        """Type; the caller keeps to `room_bytes`."""
        if data and len(data) <= self.room_bytes:
            self._out_bytes += len(data)
            self._wire.send(protocol.encode(protocol.INPUT, data))

    def resize(self, rows: int, cols: int) -> None:
        """Say that it has another size now."""
        if self._is_there and self._wire.failure is None:
            request = {"task": self._task, "rows": rows, "cols": cols}
            self._wire.send(messages.encode(protocol.RESIZE, request))
        elif self._task is not None:
            self._size = (rows, cols)

    def on_used(self, payload: bytes) -> None:
        """The runner has typed so much.

        Raises:
            ProtocolViolation: more than it was given.
        """
        try:
            used = protocol.decode_count(payload)
        except protocol.FrameError as exc:
            raise ProtocolViolation(str(exc)) from exc
        if self._task is None or used > self._out_bytes:
            raise ProtocolViolation("more input was used than given")
        self._out_bytes -= used

    def on_need(self) -> None:
        """The sandbox may open no terminal: open one for it. It gets both ends, and we keep none.

        Raises:
            ProtocolViolation: nobody asked it to run a task in one, or it has had its answer.
        """
        if not self._may_ask:
            raise ProtocolViolation("a terminal is wanted for no task")
        self._may_ask = False
        self._answer()

    def _answer(self) -> None:
        self._sending = None
        if self._wire.failure is not None:
            return
        if not self._wire.is_flushed:  # descriptors overtake nothing
            self._sending = asyncio.get_running_loop().call_later(_AGAIN_S, self._answer)
            return
        try:
            fds = os.openpty()
        except OSError:
            self._wire.send(protocol.encode(protocol.TERMINAL))
            return
        try:
            self._wire.send_with(protocol.encode(protocol.TERMINAL), fds)
        finally:
            for fd in fds:
                os.close(fd)
