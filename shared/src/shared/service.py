"""Running a service: signals, one task group, and an orderly end within a deadline."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from shared import logs

log = logs.get(__name__)

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_DRAIN_LATE = 3


class Stop:
    """Tells loops that the service is leaving. Set once, by a signal or by the service itself."""

    def __init__(self) -> None:
        """Make an unset stop."""
        self._event = asyncio.Event()
        self.reason = ""

    @property
    def is_set(self) -> bool:
        """Whether the service is leaving."""
        return self._event.is_set()

    def set(self, reason: str) -> None:
        """Ask the service to leave; the first reason stays."""
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the service is leaving, at most `timeout_s` seconds; return whether it is."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            pass
        return self._event.is_set()


async def run(app: Callable[[Stop], Awaitable[None]], *, drain_s: float) -> int:
    """Run `app` until it ends or a SIGTERM or SIGINT asks it to leave; return the exit code.

    Args:
        app: the service; it returns soon after its `Stop` is set, having finished or handed over what it holds.
        drain_s: seconds that it may take to leave; then it is cancelled.
    """
    stop = Stop()
    before = _hear_signals(stop)
    work = asyncio.ensure_future(app(stop))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            log.info("service.drain_started", reason=stop.reason, drain_s=drain_s)
            await asyncio.wait({work}, timeout=drain_s)
        if not work.done():
            log.error("service.drain_late", drain_s=drain_s)
            work.cancel()
            await asyncio.wait({work}, timeout=1.0)
            return EXIT_DRAIN_LATE
        if work.exception() is not None:
            log.error("service.failed", exc_info=work.exception())
            return EXIT_FAILED
        return EXIT_OK
    finally:
        stopping.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _hear_signals(stop: Stop) -> dict[int, Any]:
    """Let SIGTERM and SIGINT set `stop`; return the handlers that were there.

    `loop.add_signal_handler` would do, at half a millisecond for each call: it lists all signals each time, and a
    worker's start has none to spare.
    """
    loop = asyncio.get_running_loop()

    def heard(number: int, _frame: object) -> None:
        loop.call_soon_threadsafe(stop.set, signal.Signals(number).name)

    return {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
