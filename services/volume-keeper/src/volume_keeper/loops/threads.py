"""Runs calls that take as long as a storage does, each in a thread: one that hangs keeps some threads for ever, and no more."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from shared.errors import Unavailable

HANGS_S = 5.0
"""A call that has not come back after so long hangs."""

T = TypeVar("T")


class Threads:
    """So many calls to one volume at once. Nothing can end a call that hangs: its thread is left to it, and counts on."""

    def __init__(self, whose: str, count: int) -> None:
        """Call one volume.

        Args:
            whose: what it is, as errors name it.
            count: of calls at once, those included that hang.
        """
        self._whose = whose
        self._free = asyncio.Semaphore(count)
        self._count = count
        self._began: dict[int, float] = {}
        """Calls that have not come back."""
        self._numbers = itertools.count()

    @property
    def hanging(self) -> int:
        """Calls that hang."""
        return sum(time.monotonic() - began > HANGS_S for began in self._began.values())

    def problem(self) -> str:
        """Return why nothing can be done now; empty: nothing is wrong."""
        return self._said() if self.hanging >= self._count else ""

    async def run(self, act: Callable[[], T], within_s: float) -> T:
        """Do something, in a thread of its own, as soon as there may be one more.

        Args:
            act: what to do; done to its end even if nobody waits any more.
            within_s: longest wait for it.

        Raises:
            Unavailable: it takes longer, or all calls before it hang; whose volume it is, and how many do.
        """
        if problem := self.problem():
            raise Unavailable(problem)
        try:
            async with asyncio.timeout(within_s):
                await self._free.acquire()
                return await asyncio.wrap_future(self._begin(act))
        except TimeoutError as exc:
            raise Unavailable(
                f"{self._whose} does not answer within {within_s:g} s; {self._said()}"
            ) from exc

    def _begin(self, act: Callable[[], T]) -> concurrent.futures.Future[T]:
        number, loop = next(self._numbers), asyncio.get_running_loop()
        self._began[number] = time.monotonic()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()  # from here on nobody can take it back

        def work() -> None:
            try:
                future.set_result(act())
            except Exception as exc:  # noqa: BLE001 - it is the waiter's
                future.set_exception(exc)
            with suppress(RuntimeError):  # the process is at its end
                loop.call_soon_threadsafe(partial(self._ended, number))

        # A daemon: one that hangs must not keep the process from its end.
        threading.Thread(target=work, name=f"volume-{number}", daemon=True).start()
        return future

    def _ended(self, number: int) -> None:
        del self._began[number]
        self._free.release()

    def _said(self) -> str:
        first_s = time.monotonic() - min(self._began.values(), default=time.monotonic())
        return f"{self._whose}: {len(self._began)} calls have not come back, the first for {first_s:.0f} s"
