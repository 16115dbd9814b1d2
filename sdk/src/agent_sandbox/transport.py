"""What a client needs of whatever carries its words: NATS itself (`over_nats`), or a gateway over HTTP.

Above this port stands what users see (`Client`, `Session`, `RunningTask`, …), below it how it travels. A transport knows
whose tenant it speaks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Protocol, TypeVar

import msgspec

from agent_sandbox.events import Event, Started
from agent_sandbox.keys import Words
from agent_sandbox.orders import Order
from agent_sandbox.positions import Position
from agent_sandbox.sequencer import LIVE_BYTES_MAX
from shared.messages import CancelAnswer, TaskResult
from shared.objects import Chunks
from shared.terminals import TerminalAnswer

T = TypeVar("T")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """From where on a task is watched, and how."""

    after: Position | None = None
    """Behind this; None: the task is about to be published, all of it will be heard."""
    live_bytes_max: int = LIVE_BYTES_MAX
    """Held for a slow reader; what comes on top is asked for when he has read so far."""


NEW = View()


class Ear(Protocol):
    """Who is told what a watch hears."""

    def hear_start(self, started: Started) -> None:
        """Hear at once that user code runs, however far the reader of events is."""
        ...

    def settle(self, stored: TaskResult) -> None:
        """Take the task's result; further ones are the same."""
        ...


class Watch(Protocol):
    """What is heard of one task while it runs."""

    async def listen(self) -> None:
        """Begin to hear; before a publish, so that nothing is missed.

        Raises:
            Unavailable: not now; nothing is left behind.
        """
        ...

    async def publish(self, until: float) -> None:
        """Publish the task, every try under its id, until `until` (monotonic clock); then it is `accepted`.

        Raises:
            LimitExceeded: body too large, or the lane is full; it was not accepted.
            NotFound: no such pool (those that there are are named); it was not accepted.
            Unavailable: surely not accepted in time.
            OutcomeUnknown: no answer; it may have been accepted.
        """
        ...

    def accepted(self) -> None:
        """Begin to hear what can only be heard of a task that is accepted: it is."""
        ...

    async def read(self) -> TaskResult | None:
        """Ask for the result; None: there is none yet, or it would be heard.

        Raises:
            Unavailable: nobody can be asked now.
            OutcomeUnknown: no answer.
        """
        ...

    def events(self, result: asyncio.Future[TaskResult]) -> AsyncGenerator[Event, None]:
        """Yield what happens, in order and each once, at the pace of its reader; end behind what `result` brings.

        What was not heard is asked for; what nobody has is an event itself.
        """
        ...

    def mute(self) -> None:
        """Keep nothing for `events` from now on: nobody will read them."""
        ...

    async def close(self) -> None:
        """Hear no more."""
        ...


class Transport(Protocol):
    """A way to the system, open."""

    async def close(self) -> None:
        """Close it; tasks go on."""
        ...

    def draw_id(self) -> str:
        """Return an id for a new session, never published before."""
        ...

    def watch(self, order: Order, ear: Ear, view: View = NEW) -> Watch:
        """Return a watch over a task, which hears nothing yet."""
        ...

    async def read_result(self, session: str, task: str, *, timeout_s: float) -> TaskResult | None:
        """Return the stored result of a task; None: there is none.

        Raises:
            Unavailable: nobody can be asked now.
            OutcomeUnknown: no answer in time.
        """
        ...

    async def cancel(self, order: Order, *, wait_s: float) -> CancelAnswer:
        """Ask for a task's end, again while nobody can say what became of it.

        Raises:
            OutcomeUnknown: no definite answer within `wait_s`.
        """
        ...

    async def tell_terminal(self, words: Words) -> TerminalAnswer:
        """Say something to the terminal of a task that runs; one try.

        Raises:
            Unavailable: nobody hears it there: it has not begun, or has ended, or its worker is lost.
            OutcomeUnknown: no answer in time.
        """
        ...

    async def ask(self, what: str, question: msgspec.Struct, kind: type[T]) -> T:
        """Ask about this tenant's sessions, dead letters or the pools.

        Raises:
            Unavailable: nobody is there to answer.
            ServiceError: it is refused, with its code.
            OutcomeUnknown: no answer in time.
        """
        ...

    @property
    def chunks(self) -> Chunks:
        """Where the chunks of objects go to and come from."""
        ...

    async def drop_objects(self, ids: tuple[str, ...]) -> None:
        """Remove objects; what could not be removed now goes by its age."""
        ...
