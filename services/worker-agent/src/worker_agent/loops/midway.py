"""Checkpoints in the middle of a task: when, and for how long user code stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from shared.limits import CHECKPOINT_PAUSE_S_MAX
from worker_agent.ports import Sandbox

LEAVING_EVERY_S = 5.0
"""A task that is in hand when its worker is told to leave goes on until the time for that is up: no more of it than this is
lost to whoever goes on with it."""


class Midway:
    """The checkpoints of one task."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        every_s: float,
        save: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Call `save` in `group`, each time `every_s` seconds after the one before has ended."""
        self._group, self._every_s, self._save = group, every_s, save
        self._job: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = self.writing = False
        self._arm()

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._every_s, self.hurry)

    def hurry(self) -> None:
        """Take one now, if none is under way."""
        if self._ended or (self._job is not None and not self._job.done()):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._job = self._group.create_task(self._save(), name="checkpoint")
        self._job.add_done_callback(lambda _: None if self._ended else self._arm())

    def leave(self) -> None:
        """Take one now, and from now on more often."""
        self._every_s = min(self._every_s, LEAVING_EVERY_S)
        self.hurry()

    def end(self) -> None:
        """Take none any more; one that is being written is waited for by the group."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._job is not None and not self.writing:
            self._job.cancel()


class Pause:
    """User code stands still, for a bounded time."""

    def __init__(self, sandbox: Sandbox) -> None:
        """Of the user code in `sandbox`."""
        self._sandbox = sandbox
        self._frozen = False
        self._end: asyncio.Task[None] | None = None
        self.was_late = False
        """It went on before all was read."""

    async def begin(self) -> None:
        """Let it stand still."""
        self._frozen = True
        self._bound = asyncio.get_running_loop().call_later(CHECKPOINT_PAUSE_S_MAX, self._late)
        await self._sandbox.freeze()

    async def end(self) -> None:
        """Let user code go on, if it does not yet."""
        self._bound.cancel()
        if self._frozen:
            self._frozen = False
            await self._sandbox.thaw()
        if self._end is not None and self._end is not asyncio.current_task():
            await asyncio.wait({self._end})

    def _late(self) -> None:
        self.was_late = True
        self._end = asyncio.ensure_future(self.end())
