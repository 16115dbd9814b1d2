"""Asks the state shards' leaders for a sign of life, and says which give none: nobody should make ids for those."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from pool_manager.ports import Truth, Voice
from shared import logs
from shared.errors import ServiceError
from shared.ids import SHARDS
from shared.shards import SAID_EVERY_S

log = logs.get(__name__)

ANSWER_S = 0.3


class ShardWatch:
    """Every pool-manager watches and says: one of them may sit on the server that hangs."""

    def __init__(self, truth: Truth, voice: Voice) -> None:
        """Believe all to be up."""
        self._truth = truth
        self._voice = voice
        self._down: tuple[int, ...] = ()
        self.silent = 0
        """How many shards gave no sign of life at the last look, the connection's own loss included."""

    def problem(self) -> str:
        """Return why nothing can be written at all; empty: some shard answers."""
        return "no state shard has a leader that answers" if self.silent == SHARDS else ""

    async def run(self) -> None:
        """Ask three times a second, until cancelled."""
        while True:
            began = time.monotonic()
            await self._look()
            await asyncio.sleep(max(0.0, began + SAID_EVERY_S - time.monotonic()))

    async def _look(self) -> None:
        answers = await asyncio.gather(
            *(self._truth.answers(shard, ANSWER_S) for shard in range(SHARDS))
        )
        down = tuple(shard for shard, up in enumerate(answers) if not up)
        self.silent = len(down)
        if len(down) == SHARDS:
            return  # more likely it is this connection; and there would be nothing to choose
        if down != self._down:
            self._down = down
            log.warning("shards.down", shards=down)
        if down:
            with suppress(ServiceError):  # not connected: the others say it
                await self._voice.say_down(down)
