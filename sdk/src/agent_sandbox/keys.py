"""Typing into a task's terminal: numbered, so that what was lost is sent again and nothing is typed twice."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable

import msgspec

from shared.errors import NotFound, OutcomeUnknown, Unavailable, error_of
from shared.terminals import TerminalAnswer

PIECE_BYTES = 32 * 1024
SAY_S = 2.0
"""Longest wait for one answer; then the same is said again."""
NOBODY_S = 30.0
"""Longest time without any answer: a session that is recovered says so long before."""
AGAIN_S = (0.02, 0.5)
"""First and longest pause while there is no room, or nobody."""


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What is said to a terminal."""

    session: str
    task: str
    worker: str
    """That runs the task; `started` names it."""
    writer: str = ""
    offset: int = 0
    """Bytes that this writer has typed before."""
    data: bytes = b""
    size: tuple[int, int] | None = None
    """Its new rows and columns."""
    hang_up: bool = False


Say = Callable[[Words], Awaitable[TerminalAnswer]]


class Keyboard:
    """One writer at one terminal."""

    def __init__(
        self, say: Say, session: str, task: str, is_over: Callable[[], Awaitable[bool]]
    ) -> None:
        """Speak by `say`; `is_over` tells whether the task has its result."""
        self.worker = ""
        """Who runs the task."""
        self._say_once = say
        self._names = (session, task)
        self._is_over = is_over
        self._writer = uuid.uuid4().hex
        self._typed = 0
        self._turn = asyncio.Lock()

    async def type(self, data: bytes) -> None:
        """Type; returns when the terminal has all of it, which may wait for the program to read.

        Raises:
            NotFound: the task has ended.
            OutcomeUnknown: nobody has answered for `NOBODY_S`; a part may have been typed.
        """
        async with self._turn:
            at, pause_s = 0, AGAIN_S[0]
            while at < len(data):
                piece = data[at : at + PIECE_BYTES]
                answer = await self.say(writer=self._writer, offset=self._typed, data=piece)
                if answer.forgotten:  # silent for long, among many
                    self._writer, self._typed = uuid.uuid4().hex, 0
                    continue
                taken = answer.next - self._typed
                at, self._typed = at + taken, answer.next
                if taken:
                    pause_s = AGAIN_S[0]
                else:
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, AGAIN_S[1])

    async def say(
        self,
        *,
        writer: str = "",
        offset: int = 0,
        data: bytes = b"",
        size: tuple[int, int] | None = None,
        hang_up: bool = False,
    ) -> TerminalAnswer:
        """Say something to the terminal until it answers.

        Raises:
            InvalidMessage: it breaks a limit (named).
            NotFound: the task has ended.
            OutcomeUnknown: nobody has answered for `NOBODY_S`.
        """
        session, task = self._names
        until, pause_s = time.monotonic() + NOBODY_S, AGAIN_S[0]
        while True:
            words = Words(
                session=session, task=task, worker=self.worker, writer=writer,
                offset=offset, data=data, size=size, hang_up=hang_up,
            )  # fmt: skip
            try:
                answer = await self._say_once(words)
            except (Unavailable, OutcomeUnknown) as exc:
                if await self._is_over():
                    raise NotFound(f"task {task} has ended, and its terminal with it") from exc
                if time.monotonic() >= until:
                    raise OutcomeUnknown(
                        f"the terminal of task {task} does not answer: {exc}"
                    ) from exc
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, AGAIN_S[1])
            else:
                if answer.error is not None:
                    raise error_of(answer.error)
                return answer
