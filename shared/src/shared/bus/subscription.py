"""Hearing messages: short functions at once in the reader, coroutines one after the other from a bounded queue."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import nats.errors
from nats.aio.subscription import Subscription as LibrarySubscription

from shared import logs
from shared.bus import refusals
from shared.bus.link import Link
from shared.bus.types import Handler, Message
from shared.errors import Forbidden, InvariantBroken, Unavailable

log = logs.get(__name__)

CONFIRM_S = 2.0
OVERFLOW_LOG_EVERY_S = 5.0


class Subscription:
    """Interest in a subject, until it is drained or unsubscribed."""

    def __init__(self, link: Link, subject: str, handler: Handler, pending_max: int) -> None:
        """Use `Bus.subscribe`."""
        self.subject = subject
        self.dropped = 0
        """Messages lost because the handler was too slow."""
        self._link = link
        self._inner: LibrarySubscription | None = None
        self._queue: asyncio.Queue[Message] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._logged_at = 0.0
        self._registry: set[Subscription] = set()
        if inspect.iscoroutinefunction(handler):
            self._queue = asyncio.Queue(pending_max)
            self._worker = asyncio.create_task(self._work(handler), name=f"bus-{subject}")
            self._sink: Callable[[Message], None] = self._enqueue
        else:
            self._sink = _plain(handler)

    async def start(self, queue: str, registry: set[Subscription]) -> None:
        """Subscribe, and wait until the server has taken it.

        Args:
            queue: group of which one member hears each message; empty: none.
            registry: holds this subscription for as long as it hears.

        Raises:
            Forbidden: the credential does not allow to hear it.
            Unavailable: the server does not answer; the subscription is taken back.
        """
        client = self._link.client
        if not client.usable:
            await self._stop()
            raise Unavailable("not connected to NATS")
        self._registry = registry
        registry.add(self)
        self._inner = await client.add_sink(self.subject, queue, self._sink)
        try:
            confirmed = await client.ping(CONFIRM_S)
        except BaseException:  # whoever asked is cancelled: nobody would ever end it
            await self.unsubscribe()
            raise
        if not confirmed:
            await self.unsubscribe()
            raise Unavailable(f"no answer to the subscription of {self.subject}")
        for text in self._link.refused:
            if refusals.refused_subscription(text) == self.subject.lower():
                await self.unsubscribe()
                raise Forbidden(f"{self._link.options.name} may not hear {self.subject}")

    async def drain(self, *, deadline_s: float = 2.0) -> None:
        """Stop hearing; what was on its way is still handled, at most for `deadline_s` seconds."""
        inner, self._inner = self._inner, None
        if inner is None:
            return
        # A renewal or reconnect in the meantime tells the server anew what we hear: this no more.
        self._link.client._subs.pop(inner._id, None)
        try:
            async with asyncio.timeout(deadline_s):
                if self._link.client.usable:
                    await self._link.client._send_unsubscribe(inner._id)
                    await self._link.client.ping(deadline_s)
                if self._queue is not None:
                    await self._queue.join()
        except TimeoutError:
            log.warning("bus.drain_cut", subject=self.subject)
        finally:
            self._link.client._remove_sub(inner._id)
            await self._stop()

    async def unsubscribe(self) -> None:
        """Stop hearing; what is queued is dropped."""
        inner, self._inner = self._inner, None
        if inner is not None:
            with suppress(nats.errors.Error):
                await inner.unsubscribe()
        await self._stop()

    async def _stop(self) -> None:
        self._registry.discard(self)
        worker, self._worker = self._worker, None
        if worker is not None and worker is not asyncio.current_task():
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker

    def _enqueue(self, message: Message) -> None:
        assert self._queue is not None
        try:
            self._queue.put_nowait(message)
        except asyncio.QueueFull:
            self.dropped += 1
            now = time.monotonic()
            if now - self._logged_at > OVERFLOW_LOG_EVERY_S:
                self._logged_at = now
                log.warning("bus.handler_slow", subject=self.subject, dropped=self.dropped)

    async def _work(self, handler: Callable[[Message], Awaitable[None]]) -> None:
        assert self._queue is not None
        while True:
            message = await self._queue.get()
            try:
                await handler(message)
            except Exception:
                log.exception("bus.handler_failed", subject=message.subject)
            finally:
                self._queue.task_done()


def _plain(handler: Handler) -> Callable[[Message], None]:
    def call(message: Message) -> None:
        result = handler(message)
        if inspect.iscoroutine(
            result
        ):  # a lambda around a coroutine function looks like a plain one
            result.close()
            raise InvariantBroken(
                f"the handler of {message.subject} must itself be a coroutine function"
            )

    return call
