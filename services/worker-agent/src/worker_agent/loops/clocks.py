"""The servers' clock, as far as a task's deadline needs it."""

from __future__ import annotations

import contextlib
import time

from shared import logs
from shared.errors import ServiceError
from shared.record import Record
from worker_agent.ports import Truth

log = logs.get(__name__)


class Clocks:
    """Knows how far this machine's clock is off, once somebody has asked."""

    def __init__(self, truth: Truth) -> None:
        """Ask `truth`."""
        self._truth = truth
        self._ahead_ms = 0
        self._known = False

    async def compare(self, record: Record) -> None:
        """Learn how far this machine's clock is off, once; without an answer its own clock counts."""
        if self._known:
            return
        with contextlib.suppress(ServiceError):
            self._ahead_ms = await self._truth.server_ahead_ms(record)
            self._known = True
            if self._ahead_ms:
                log.warning("clock.differs", server_ahead_s=round(self._ahead_ms / 1000, 1))

    def now_ms(self) -> int:
        """Return the time by the servers' clock, milliseconds since 1970."""
        return int(time.time() * 1000) + self._ahead_ms
