"""Requests to the terminal of the task that runs here, from its tenant's clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from shared import logs, messages, subjects
from shared.bus import Bus, Message, Subscription
from shared.errors import InvalidMessage, ServiceError, Unavailable
from shared.record import Record
from shared.terminals import TerminalAnswer
from worker_agent.core.terminal import Keys, read_keys

log = logs.get(__name__)

WAITING_MAX = 64
"""Messages that wait for their turn; what comes beyond is sent again by its client."""
AGAIN_S = 0.25


class BusTerminals:
    """Implements `ports.Terminals`. Only the task's own subject is heard: what names another never comes here."""

    def __init__(self, bus: Bus, worker: str) -> None:
        """Hear as `worker`."""
        self._bus = bus
        self._worker = worker

    @asynccontextmanager
    async def heard(
        self, record: Record, task: str, take: Callable[[Keys], TerminalAnswer]
    ) -> AsyncIterator[None]:
        """While inside, have `take` answer what is said to the terminal of one task."""

        async def answer(message: Message) -> None:
            try:
                said = take(read_keys(message.headers, message.data))
            except InvalidMessage as exc:
                said = TerminalAnswer(error=exc.info())
            if message.reply:
                with suppress(ServiceError):  # unanswered, it comes again
                    await self._bus.publish(message.reply, messages.encode(said))

        subject = subjects.terminal(self._worker, record.tenant, record.session, task)
        subscribed: list[Subscription] = []
        hearing = asyncio.create_task(self._hear(subject, answer, subscribed))
        try:
            yield
        finally:
            hearing.cancel()
            await asyncio.wait({hearing})
            for one in subscribed:
                await one.unsubscribe()

    async def _hear(
        self, subject: str, handler: Callable[[Message], object], subscribed: list[Subscription]
    ) -> None:
        """Subscribe, however long the servers take; meanwhile clients find nobody, and ask again."""
        while True:
            try:
                subscribed.append(
                    await self._bus.subscribe(subject, handler, pending_max=WAITING_MAX)  # type: ignore[arg-type]  # a coroutine function
                )
            except Unavailable as exc:
                log.info("subject.not_heard_yet", subject=subject, error=exc.code)
                await asyncio.sleep(AGAIN_S)
            else:
                return
