"""Measures what this gateway's callers wait for: each task's time to interactive, taken where its call came in."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from agent_sandbox import Client, RunningTask
from gateway.core.measured import Measured, Place
from gateway.core.windows import Bounds, Windows
from shared import headers, logs, messages
from shared.errors import InvalidMessage, ServiceError
from shared.messages import OutputEvent, TaskResult
from shared.rest import Tti, TtiAnswer
from shared.tti import tti_by_servers, tti_by_worker
from shared.views import OutputAnswer, OutputAsk, OutputMessage

log = logs.get(__name__)

WATCH_S = 3600.0
"""How long a task that has not started is listened to after its call was answered; the servers' stamps say it then."""
TENANT_WATCHES_MAX = 500
WATCHES_MAX = 5_000
"""Tasks that are listened to at once, two subscriptions each."""
TENANT_WAITING_MAX = 256
"""Creates of one tenant that wait for their start at once: half of the requests that it may have under way."""
LATE_START_S = 0.1
"""The event `started` comes another way than the result, and may be overtaken by it."""
EVENTS_ASKED = 32
ASKS_MAX = 8
"""A task's first start lies among its first events: so many are looked at, in so many questions."""


class Meter:
    """Remembers what was measured, and listens on behind calls that were answered before their task started."""

    def __init__(self, gateway: str, bounds: Bounds | None = None) -> None:
        """Measure for the gateway of that name."""
        self._gateway = gateway
        self._windows = Windows(bounds or Bounds())
        self._measured = Measured()
        self._watches: set[asyncio.Task[None]] = set()
        self._watched: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._heard: dict[Place, RunningTask] = {}
        """Tasks that are listened to: what is heard of their start goes before what the servers say."""

    def answer(self, tenant: str) -> TtiAnswer:
        """Return a tenant's statistics."""
        rows = self._windows.rows(tenant, time.monotonic())
        return TtiAnswer(gateway=self._gateway, window_s=self._windows.bounds.window_s, pools=rows)

    async def started(self, running: RunningTask, wait_s: float) -> bool:
        """Wait until a task was heard to start or to end, and note what was measured of it.

        A tenant whose creates wait in great number gets the answers of the others at once.

        Args:
            running: a task that was just published.
            wait_s: longest wait, seconds.

        Returns:
            Whether it has started or ended.
        """
        running.ignore_events()
        tenant = running.tenant
        if wait_s and self._waiting[tenant] < TENANT_WAITING_MAX:
            self._waiting[tenant] += 1
            self._heard.setdefault(_place(running), running)
            try:
                await running.started(wait_s=wait_s)
            except ServiceError as exc:  # it is accepted all the same: no error of the call
                log.info("start.not_awaited", task_id=running.task_id, error=exc.code)
            finally:
                self._waiting -= Counter([tenant])
                self._unheard(running)
        self.note(running)
        return running.has_started or running.stored is not None

    @asynccontextmanager
    async def hearing(self, running: RunningTask) -> AsyncIterator[None]:
        """Know a task whose caller hears all of it while inside, then go on as behind any other (`leave`)."""
        self._heard.setdefault(_place(running), running)
        try:
            yield
        finally:
            self._unheard(running)
            running.ignore_events()
            await self.leave(running)

    async def leave(self, running: RunningTask) -> None:
        """Take over a task whose caller gets his answer now: note its start when it comes, and stop listening."""
        tenant = running.tenant
        self.note(running)
        if (
            running.has_started
            or running.stored is not None
            or self._watched[tenant] >= TENANT_WATCHES_MAX
            or len(self._watches) >= WATCHES_MAX
        ):
            await running.forget()
            return
        self._watched[tenant] += 1
        self._heard.setdefault(_place(running), running)
        watch = asyncio.create_task(self._watch(running), name="measure")
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _watch(self, running: RunningTask) -> None:
        try:
            with suppress(ServiceError):  # the tenant's client was closed
                await running.started(wait_s=WATCH_S, ask=False)
            self.note(running)
        finally:
            self._watched -= Counter([running.tenant])
            self._unheard(running)
            with suppress(ServiceError):
                await running.forget()

    def note(self, running: RunningTask) -> None:
        """Remember what was measured of a task, if it was heard to start: once."""
        tti = running.tti
        if tti is not None and self._measured.put(_place(running), tti):
            self._windows.add(running.tenant, running.pool, tti, time.monotonic())

    async def tti_of(
        self, client: Client, names: tuple[str, str], stored: TaskResult | None
    ) -> Tti | None:
        """Return a task's time: as it was measured here, else as the servers' stamps have it.

        Args:
            client: its tenant's.
            names: its session and its own id.
            stored: its result, where there is one.
        """
        if stored is not None and not stored.timing.started_ms and not stored.interruptions:
            return None  # it never ran
        place: Place = (client.options.tenant, *names)
        known = self._measured.get(place)
        if known is None and (running := self._heard.get(place)) is not None:
            if stored is None:
                return None  # in a moment it will have been heard
            with suppress(ServiceError):
                await running.started(wait_s=LATE_START_S, ask=False)
            known = running.tti
        if known is None:
            known = await _by_servers(client, *names)
        if known is None and stored is not None:
            known = tti_by_worker(stored)
        if known is not None:
            self._measured.put(place, known)
        return known

    def _unheard(self, running: RunningTask) -> None:
        if self._heard.get(_place(running)) is running:
            del self._heard[_place(running)]

    async def close(self) -> None:
        """Listen to nothing any more."""
        for watch in self._watches:
            watch.cancel()
        if self._watches:
            await asyncio.wait(set(self._watches), timeout=1.0)


def _place(running: RunningTask) -> Place:
    return running.tenant, running.session_id, running.task_id


async def _by_servers(client: Client, session: str, task: str) -> Tti | None:
    """Return what the stored event of the first start says; None: there is none, or nobody who could say so."""
    after = 0
    for _ in range(ASKS_MAX):
        question = OutputAsk(session=session, task=task, after=after, limit=EVENTS_ASKED)
        try:
            answer = await client.ask("output", question, OutputAnswer)
        except ServiceError as exc:
            log.info("start.not_found", task_id=task, error=exc.code)
            return None
        for message in answer.messages:
            if message.headers.get(headers.EVENT) == "started":
                return _of_event(message)
        if not answer.more:
            return None
        after = answer.next
    return None


def _of_event(message: OutputMessage) -> Tti | None:
    try:
        event = messages.decode(message.data, OutputEvent)
    except InvalidMessage:  # of a newer worker
        return None
    return tti_by_servers(event.timing, message.at_ms)
