"""An event loop on a thread of its own, and calls into it that return when their work is done."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any, TypeVar

from shared.errors import OutcomeUnknown

CLEAN_UP_S = 20.0
"""Longest wait, after `^C`, for what the call does in its end: a task that is cancelled with its caller, say."""
STOP_S = 5.0
T = TypeVar("T")


class Portal:
    """Runs coroutines for threads that have no loop."""

    def __init__(self) -> None:
        """Start the thread."""
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._is_open = True
        self._closing = threading.Lock()
        """Held where something is begun: what was begun before the end is ended by it, and nothing after."""
        self._thread = threading.Thread(target=self._run, name="agent-sandbox", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it can be called."""
        return self._is_open and self.is_ours

    @property
    def is_ours(self) -> bool:
        """Whether this process has its thread: a child of a fork has not."""
        return self._pid == os.getpid()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and return what it returns, or raise what it raises.

        An exception of the waiting thread's own, as `KeyboardInterrupt`, cancels the work and waits until it has ended;
        a second one goes out at once.

        Raises:
            RuntimeError: the portal is closed, is another process's, or is called from its own thread.
            OutcomeUnknown: it was closed in the middle of the work.
        """
        done: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            task = self._loop.create_task(work)
            tasks.append(task)
            task.add_done_callback(lambda ended: _pass_on(ended, done))

        def give_up() -> None:  # called behind `begin`, where that was asked for
            if tasks:
                tasks[0].cancel()
            else:
                work.close()
                done.set_exception(CancelledError())

        may_have_begun = False  # an interrupt comes between any two lines
        try:
            with self._closing:
                self._check()
                may_have_begun = True
                self._loop.call_soon_threadsafe(begin)
            return done.result()
        except CancelledError:
            raise OutcomeUnknown("the client was closed in the middle of the call") from None
        except BaseException:
            if not may_have_begun:
                work.close()
            elif not done.done():
                # RuntimeError: closed meanwhile by another thread, which has ended the work.
                with suppress(CancelledError, FutureTimeoutError, RuntimeError):
                    self._loop.call_soon_threadsafe(give_up)
                    done.exception(CLEAN_UP_S)
            raise

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yield what an async generator yields; it is closed where the caller leaves early.

        Raises:
            RuntimeError: as `call`.
        """
        try:
            while True:
                try:
                    item = self.call(_next(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if self.is_alive:
                self.call(items.aclose())

    def stop(self) -> None:
        """End what still runs, and the thread. In a child of a fork, where there is no such thread, do nothing."""
        if not self.is_ours:
            return
        with self._closing:
            if not self._is_open:
                return
            self._is_open = False
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(STOP_S)

    def _check(self) -> None:
        if not self.is_ours:
            raise RuntimeError(
                "this client was made before the process forked: make one in each process"
            )
        if not self._is_open:
            raise RuntimeError("the client is closed")
        if threading.current_thread() is self._thread:
            raise RuntimeError("the client can't be called from its own thread, as from a callback")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=STOP_S))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)


def _pass_on(ended: asyncio.Task[T], done: Future[T]) -> None:
    if ended.cancelled():
        done.set_exception(CancelledError())
    elif (error := ended.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(ended.result())
