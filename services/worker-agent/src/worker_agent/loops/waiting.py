"""A session that waits for its files, until its task is late or cancelled or its worker is to leave."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Literal

from shared import transitions
from worker_agent.loops.commit import Committer
from worker_agent.ports import Held

NotWaited = Literal["late", "cancelled", "given_back"]
"""Why a wait came to nothing."""


class Waiting:
    """One session's waits, one after another."""

    def __init__(self, committer: Committer) -> None:
        """Give sessions back by `committer`."""
        self._committer = committer
        self._ended = asyncio.Event()
        self._leaving = self._cancelled = False
        self._end_at = 0.0

    def leave(self) -> None:
        """The worker is to leave: it waits for nothing any more."""
        self._leaving = True
        self._ended.set()

    def cancel(self) -> None:
        """The task in hand is cancelled: it waits for its files no more."""
        self._cancelled = True
        self._ended.set()

    def begin(self, left_s: float) -> None:
        """A task begins to wait, for so long at most."""
        self._end_at, self._cancelled = time.monotonic() + left_s, False
        if not self._leaving:
            self._ended.clear()

    @property
    def left_s(self) -> float:
        """How long it may still wait."""
        return self._end_at - time.monotonic()

    async def end(self) -> None:
        """Return when nobody waits any more: the worker leaves, or the task is cancelled."""
        await self._ended.wait()

    async def pause(self, held: Held, for_s: float) -> NotWaited | None:
        """Wait; return why that is of no use any more.

        Raises:
            StaleEpoch: another owner has the session.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(for_s, max(self.left_s, 0.0))):
                await self._ended.wait()
        if self._cancelled:
            return "cancelled"
        if self._leaving:
            return await self.give_back(held, 0.0)
        return "late" if self.left_s <= 0 else None

    async def give_back(self, held: Held, after_s: float) -> Literal["given_back"]:
        """Let another pod try, after so long.

        Raises:
            StaleEpoch: another owner has the session.
        """
        now_ms = int(time.time() * 1000)
        until_ms = now_ms + int(after_s * 1000)
        waiting = transitions.postpone(held.record, held.hold, until_ms=until_ms, now_ms=now_ms)
        await self._committer.write(held, waiting)
        return "given_back"
