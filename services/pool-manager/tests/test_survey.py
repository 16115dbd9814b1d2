"""The survey of the inboxes, where one shard elects its leader."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from pool_manager.core.world import Bounds, World
from pool_manager.loops.sweep import Keepers, Sweeper
from shared.errors import Unavailable


class OneShardDown:
    """The inboxes of the first shard give no answer; the others are empty."""

    def __init__(self) -> None:
        """Ask for nothing yet."""
        self.asked: list[int] = []
        self.all_asked = asyncio.Event()

    async def inbox_subjects(self, shard: int) -> list[tuple[str, str, str]]:
        """Answer, or not."""
        self.asked.append(shard)
        if shard == 0:
            raise Unavailable("no leader")
        if shard == 2:
            self.all_asked.set()
        return []


class Nothing:
    """Is shown what waits."""

    def counted(self, _entries: Any) -> None:
        """Nothing is too much."""

    def emptied(self, _shard: int, _present: Any) -> None:
        """Nothing is due."""


async def test_an_inbox_shard_that_gives_no_answer_keeps_no_other_waiting() -> None:
    """All are seen in one round; the next one is far."""
    truth, keeper, none = OneShardDown(), Nothing(), None
    parts: Any = (truth, none, none, Keepers(keeper, keeper))  # type: ignore[arg-type]  # what it needs of them
    sweeper = Sweeper(World("pm-1", (), Bounds(), time.monotonic()), *parts)
    sweeper.every_s = 600.0
    running = asyncio.create_task(sweeper.run())
    try:
        async with asyncio.timeout(10):
            await truth.all_asked.wait()
    finally:
        running.cancel()

    assert truth.asked == [0, 1, 2]
