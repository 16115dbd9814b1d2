"""User code that several want to stand still: it goes on when none of them does any more."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from worker_agent.adapters.runner import RunnerChannel, RunnerLost
from worker_agent.adapters.transfers import Transfers


class Standstill:
    """Counts who wants it; what moves between object store and workspace stands still, too."""

    def __init__(self, channel: RunnerChannel, transfers: Transfers) -> None:
        """Of the user code behind `channel`."""
        self._channel, self._transfers = channel, transfers
        self._changing = asyncio.Lock()
        self._still = False
        self.wanted = 0
        """By how many."""

    async def begin(self) -> None:
        """Return when it stands still."""
        self.wanted += 1
        await self._change()

    async def end(self) -> None:
        """Want it no more; return when it goes on, unless others still want it."""
        self.wanted -= 1
        await self._change()

    async def _change(self) -> None:
        """Bring about what is wanted; changes come one after another."""
        async with self._changing:
            if self._still == (self.wanted > 0):
                return
            self._still = self.wanted > 0
            if self._still:
                self._transfers.freeze()
            with suppress(RunnerLost):
                await (self._channel.freeze() if self._still else self._channel.thaw())
            if not self._still:
                self._transfers.thaw()
