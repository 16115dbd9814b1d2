"""What the reader of a WebSocket sends: it is typed into the task's terminal, where the task has one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from litestar import WebSocket
from msgspec import Meta

from agent_sandbox import Client
from agent_sandbox.keys import Keyboard, Words
from gateway.adapters.http.terminals import has_ended, owner_of
from shared import limits
from shared.errors import NotFound, OutcomeUnknown, ServiceError, Unavailable
from shared.rest import StreamEvent
from shared.terminals import TerminalAnswer

STUCK_S = 60.0
"""A program that reads nothing for so long ends the connection that types: who looks may come back."""
AHEAD_MAX = 16
"""Messages that wait for the task's start, or for those before them."""
LOOK_S = (0.2, 5.0)
"""First and longest pause between two questions who runs the task; its start is heard besides."""
Side = Annotated[int, Meta(ge=1, le=limits.TERMINAL_SIDE_MAX)]


class TerminalInput(msgspec.Struct, frozen=True, kw_only=True):
    """A text message to a WebSocket of a task in a terminal; a binary one is typed as it is."""

    text: str = ""
    """To be typed."""
    rows: Side | None = None
    cols: Side | None = None
    """Its new size, both together."""
    hang_up: bool = False

    def __post_init__(self) -> None:
        """Refuse half a size."""
        if (self.rows is None) != (self.cols is None):
            raise ValueError("rows: expected together with cols")


_inputs = msgspec.json.Decoder(TerminalInput)


class Desk:
    """Where one reader sits and may type."""

    def __init__(self, client: Client, session: str, task: str) -> None:
        """Type nothing yet."""
        self._client = client
        self._names = (session, task)
        self._keyboard = Keyboard(self._say, session, task, self._is_over)
        self._has_begun = asyncio.Event()
        self._has_answered = False
        self._is_deaf = False
        """The task has no terminal: what is sent goes nowhere."""
        self._ahead: asyncio.Queue[Any] = asyncio.Queue(AHEAD_MAX)
        self.refused = ""
        """Why what the reader sent can't be typed; empty: it could."""

    def hear(self, event: StreamEvent) -> None:
        """Hear from the stream who runs the task."""
        if event.event == "started":
            self._keyboard.worker = event.worker
            self._has_begun.set()

    async def attend(self, socket: WebSocket[Any, Any, Any]) -> None:
        """Type what comes; return when the reader is gone, or sends what can't be typed (`refused`).

        What comes before the task runs waits for that. All of it is read at once: a connection that is not read shows
        neither that its reader is there nor that he is gone.
        """
        works = [asyncio.create_task(one) for one in (self._take(socket), self._type())]
        try:
            done, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in works:
                one.cancel()
            await asyncio.wait(works)

    async def _take(self, socket: WebSocket[Any, Any, Any]) -> None:
        while (message := await socket.receive())["type"] == "websocket.receive":
            if self._is_deaf:
                continue
            try:
                async with asyncio.timeout(STUCK_S):
                    await self._ahead.put(message)
            except TimeoutError:
                self.refused = f"{AHEAD_MAX} messages wait, and nothing of them is typed"
                return

    async def _type(self) -> None:
        while True:
            message = await self._ahead.get()
            if self._is_deaf:
                continue
            try:
                said = _read(message)
                await self._sit()
                async with asyncio.timeout(STUCK_S):
                    await self._do(said)
            except NotFound:  # it has ended: the stream comes to that
                continue
            except (msgspec.DecodeError, ValueError) as exc:
                self.refused = f"message: {exc}"
            except OutcomeUnknown as exc:
                if not self._has_answered:  # nobody hears there although the task runs
                    self._is_deaf = True
                    continue
                self.refused = str(exc)
            except ServiceError as exc:
                self.refused = str(exc)
            except TimeoutError:
                self.refused = f"its program has read nothing for {STUCK_S:g} s"
            if self.refused:
                return

    async def _sit(self) -> None:
        """Return when it is known who runs the task."""
        pause_s = LOOK_S[0]
        while not self._keyboard.worker:
            try:
                self._keyboard.worker = await owner_of(self._client, *self._names)
            except (NotFound, Unavailable, OutcomeUnknown):
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._has_begun.wait()
                pause_s = min(2 * pause_s, LOOK_S[1])

    async def _do(self, said: TerminalInput | bytes) -> None:
        if isinstance(said, bytes):
            await self._keyboard.type(said)
        else:
            if said.rows is not None and said.cols is not None:
                await self._keyboard.say(size=(said.rows, said.cols))
            await self._keyboard.type(said.text.encode())
            if said.hang_up:
                await self._keyboard.say(hang_up=True)

    async def _say(self, words: Words) -> TerminalAnswer:
        answer = await self._client.transport.tell_terminal(words)
        self._has_answered = True
        return answer

    async def _is_over(self) -> bool:
        return await has_ended(self._client, *self._names)


def _read(message: Any) -> TerminalInput | bytes:
    """Return what is to be typed.

    Raises:
        msgspec.DecodeError: it can't be read.
    """
    if message.get("bytes") is not None:
        data: bytes = message["bytes"]
        return data
    return _inputs.decode(message.get("text") or "")
