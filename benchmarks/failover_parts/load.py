"""What goes on while servers die: one-shots at a steady rate, and sessions that get a task at fixed times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from harness.load import CODE

from agent_sandbox import Client
from agent_sandbox.session import Session
from shared.errors import ServiceError
from shared.task import Python

DEADLINE_S = 60.0
"""Nothing may take so long: what does is an error."""


@dataclass
class OneShot:
    """A one-shot as its publisher saw it. Seconds since 1970; 0: it did not come to that."""

    called_s: float
    acked_s: float = 0.0
    started_s: float = 0.0
    """The user code's own first look at the clock."""
    error: str = ""


@dataclass
class Next:
    """A task of a session that was there before."""

    due_s: float
    done_s: float = 0.0
    error: str = ""


@dataclass
class Load:
    """Runs both until it is told to end, then waits for what is under way."""

    client: Client
    pool: str
    shots: list[OneShot] = field(default_factory=list)
    nexts: list[Next] = field(default_factory=list)
    ending: asyncio.Event = field(default_factory=asyncio.Event)

    async def publish_one_shots(self, rate: float) -> None:
        """Publish one after the other by the clock, whatever became of the earlier ones."""

        async def begin() -> None:
            self.shots.append(OneShot(time.time()))
            await self._one_shot(self.shots[-1])

        await self._by_the_clock(1 / rate, begin)

    async def _one_shot(self, shot: OneShot) -> None:
        try:
            # No id of ours: the client draws one, as it does for everybody.
            running = await self.client.publish(
                Python(code=CODE, deadline_s=DEADLINE_S), {"pool": self.pool}
            )
            shot.acked_s = time.time()
            running.ignore_events()
            result = await running.result(wait_s=DEADLINE_S)
        except ServiceError as exc:
            shot.error = f"{exc.code}: {exc}"
            return
        if result.ok:
            shot.started_s = int(result.stdout) / 1e9
        else:
            shot.error = f"{result.status}: {result.reason}"

    async def keep_busy(self, session: Session, every_s: float) -> None:
        """Give a session a task each `every_s`, whether or not the one before is done."""

        async def begin() -> None:
            self.nexts.append(Next(time.time()))
            await self._next(session, self.nexts[-1])

        await self._by_the_clock(every_s, begin)

    async def _next(self, session: Session, task: Next) -> None:
        try:
            running = await session.start_python("1 + 1", deadline_s=DEADLINE_S)
            running.ignore_events()
            result = await running.result(wait_s=DEADLINE_S)
        except ServiceError as exc:
            task.error = f"{exc.code}: {exc}"
            return
        task.done_s = time.time()
        if not result.ok:
            task.error = f"{result.status}: {result.reason}"

    async def _by_the_clock(self, every_s: float, begin: Callable[[], Awaitable[None]]) -> None:
        clock = asyncio.get_running_loop().time
        due = clock()
        async with asyncio.TaskGroup() as group:
            while not self.ending.is_set():
                group.create_task(_run(begin))
                due += every_s
                await asyncio.sleep(max(0.0, due - clock()))

    def errors(self) -> list[str]:
        """Return what went wrong, one text for each."""
        return [one.error for one in (*self.shots, *self.nexts) if one.error]


async def _run(begin: Callable[[], Awaitable[None]]) -> None:
    await begin()
