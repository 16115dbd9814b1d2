"""Asks the pool-managers for what of a task's output was not heard, and says when nobody has it."""

from __future__ import annotations

import asyncio
import time

from agent_sandbox.over_nats.asking import ask
from agent_sandbox.positions import Position
from agent_sandbox.sequencer import Sequencer
from shared import limits, subjects
from shared.bus import Bus
from shared.errors import InvalidMessage, NotFound, OutcomeUnknown, ServiceError, Unavailable
from shared.messages import TaskResult, decode
from shared.views import OutputAnswer, OutputAsk, SessionAnswer, ShowAsk

PAUSES_S = (0.05, 0.2, 0.5, 1.0)
"""Between questions that bring nothing: a message is stored a moment after it was heard."""
SURE_AFTER = 3
"""So many answers without it: it is not stored."""
HOLD_S = 15.0
"""What follows a gap waits so long for a result that fills it, and no longer than the result could."""
UNANSWERED_S = 10.0
"""So long nobody could be asked: the reader is told that something is missing."""
READ_TIMEOUT_S = 1.0
BEHIND_S = (0.05, 0.2)
"""A server that has not heard of a result may have it after such pauses."""


async def check_position(bus: Bus, names: tuple[str, str, str], after: Position) -> None:
    """Refuse a position that no reader can have been given; where nobody answers, it is believed.

    Raises:
        InvalidMessage: the task is not yet there.
        NotFound: there is no such task (any more).
    """
    try:
        result, shown = await _look(bus, names)
    except (Unavailable, OutcomeUnknown):
        return
    if shown.record is None and result is None:
        raise NotFound("no such task, or it ended long ago")
    if shown.record is not None and shown.record.epoch < after.epoch:
        raise InvalidMessage(f"after: the session is in epoch {shown.record.epoch}, not further")
    if result is not None and (result.epoch, result.attempt) == (after.epoch, after.attempt):
        sizes = (result.stdout.size, result.stderr.size)
        if after.stdout > sizes[0] or after.stderr > sizes[1]:
            raise InvalidMessage(f"after: the task wrote {sizes[0]} and {sizes[1]} bytes, not more")


async def _look(bus: Bus, names: tuple[str, str, str]) -> tuple[TaskResult | None, SessionAnswer]:
    """Return a task's result, if it has one, and its session.

    A result is read from any server, which may be a moment behind: of a task that has begun and does not run, it is
    asked for again.
    """
    tenant, session, task = names
    subject, question = subjects.ask(tenant, "session"), ShowAsk(session=session)
    body = await bus.read_result(*names, timeout_s=READ_TIMEOUT_S)
    shown = await ask(bus, subject, question, SessionAnswer)
    for pause_s in BEHIND_S:
        if body is not None or shown.task == task:
            break
        await asyncio.sleep(pause_s)
        body = await bus.read_result(*names, timeout_s=READ_TIMEOUT_S)
        shown = await ask(bus, subject, question, SessionAnswer)
    return None if body is None else decode(body, TaskResult), shown


class Replay:
    """Fills the gaps of one reader."""

    def __init__(self, bus: Bus, names: tuple[str, str, str], sequencer: Sequencer) -> None:
        """Fill those of `sequencer`; names are tenant, session and task."""
        self._bus = bus
        self._tenant, self._session, self._task = names
        self._sequencer = sequencer
        self._cursor = 0
        self._more = False
        self._empty = 0
        self._failures = 0
        self._since: float | None = None
        self.is_over = False
        """The task has ended, and all that can be had is there."""

    def went_on(self) -> None:
        """Note that the reader got something: what is missing now is missing since now."""
        self._empty = self._failures = 0
        self._since = None

    async def step(self, result: TaskResult | None) -> None:
        """Ask once, or wait a moment; give up what is missing where nobody has it.

        Args:
            result: the task's, once it is there.
        """
        sequencer, now = self._sequencer, time.monotonic()
        if self._since is None:
            self._since = now
            self._cursor = self._cursor if self._more else 0
        if sequencer.has_stored:  # and does not follow: what lies before it may have come meanwhile
            sequencer.forget_stored()
            self._cursor = 0
        drops = sequencer.drops
        try:
            answer = await self._ask()
        except ServiceError:
            self._failures += 1
            await self._pause_or_skip(self._failures, now - self._since >= UNANSWERED_S, result)
            return
        sequencer.give(answer.messages, more=answer.more, drops=drops)
        self._cursor, self._more = answer.next, answer.more
        nothing_new = answer.more and not sequencer.has_stored
        if sequencer.has_next or nothing_new or not (result is not None or sequencer.is_stuck):
            return
        self._empty += 1
        self._cursor = 0
        filled = result is not None or sequencer.held_bytes >= limits.RESULT_OUTPUT_BYTES_MAX
        sure = self._empty >= SURE_AFTER and (filled or now - self._since >= HOLD_S)
        await self._pause_or_skip(self._empty, sure, result)

    async def _ask(self) -> OutputAnswer:
        # The third time from the very start: where zombies speak in between, a place may be found too late.
        since = None if self._empty == SURE_AFTER - 1 else self._sequencer.mark
        question = OutputAsk(
            session=self._session, task=self._task, after=self._cursor, since=since
        )
        return await ask(self._bus, subjects.ask(self._tenant, "output"), question, OutputAnswer)

    async def _pause_or_skip(self, times: int, give_up: bool, result: TaskResult | None) -> None:
        if not give_up:
            await asyncio.sleep(PAUSES_S[min(times, len(PAUSES_S)) - 1])
            return
        self._sequencer.skip(result)
        self.is_over = result is not None
