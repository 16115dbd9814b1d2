"""Words of which stories are made: told by ids alone, so that a client that died can tell its story again."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import TypeVar

import msgspec

from agent_sandbox import Client, Session
from agent_sandbox.results import Result
from agent_sandbox.running import RunningTask
from faults_parts.waiting import STORY_S, insist, wait_for
from shared import subjects
from shared.errors import Unavailable
from shared.task import Command, Task
from shared.views import SessionAnswer, ShowAsk

PROMPT_S = 2.0
"""How long a story waits for a sign before it goes on without."""
BUSY_S = 30.0
"""How long a story waits until all workers of its pool are at work."""
PODS_MAX = 4
"""Most pods of a story's pool."""
T = TypeVar("T")


class Expected(msgspec.Struct, frozen=True):
    """A task of a story, and how it may end."""

    session: str
    task: str
    statuses: tuple[str, ...] = ("ok",)


class Cast(msgspec.Struct):
    """Who is in a story."""

    tenant: str
    pool: str
    seed: str
    """Of the ids: the same seed, the same ids."""
    expected: dict[str, Expected] = {}
    """By task."""

    def id(self, name: str) -> str:
        """Return the id that goes by a name in this story."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.seed}/{name}"))

    def expect(self, session: str, task: str, *statuses: str) -> None:
        """Note how a task may end."""
        self.expected[task] = Expected(session, task, statuses or ("ok",))


class Teller:
    """Tells stories through one client."""

    def __init__(self, client: Client, cast: Cast, sign: Callable[[], int | None]) -> None:
        """Use a connected client.

        Args:
            client: connected.
            cast: who is in the story.
            sign: returns the process at which the story's own fault has struck, once it has.
        """
        self._client = client
        self._sign = sign
        self.cast = cast

    # --- words -------------------------------------------------------------------------------------------------------

    def line(self, rest: str = "true") -> Command:
        """Return a task that leaves its mark in the workspace's journal, tells it, and does something."""
        mark = 'echo "$AGENT_SANDBOX_TASK" >> journal; cat journal'
        return Command(shell=f"{mark}; {rest}", keep=False)

    async def first(
        self, name: str, task: Task, *statuses: str, klass: str = "interactive"
    ) -> Result:
        """Publish a session's first task and wait for its result."""
        session = self.cast.id(name)
        self.cast.expect(session, session, *statuses)
        options = {"pool": self.cast.pool, "klass": klass, "task_id": session}
        return await insist(lambda: self._run_first(task, options))

    async def _run_first(self, task: Task, options: dict[str, str]) -> Result:
        running = await self._client.publish(task, options)
        return await running.result(wait_s=STORY_S)

    async def next(self, name: str, task_name: str, task: Task, *statuses: str) -> Result:
        """Publish the next task of a session and wait for its result."""
        session, task_id = self.cast.id(name), self.cast.id(task_name)
        self.cast.expect(session, task_id, *statuses)

        async def run() -> Result:
            running = await self._client.publish_next(session, task, {"task_id": task_id})
            return await running.result(wait_s=STORY_S)

        return await insist(run)

    async def busy(self, name: str, count: int, task: Task) -> list[RunningTask]:
        """Publish so many first tasks; return them when user code of all runs.

        Raises:
            TimeoutError: of some none was heard to run: what is told after that would not be what is looked at.
        """

        async def work(number: int) -> RunningTask:
            session = self.cast.id(f"{name}{number}")
            self.cast.expect(session, session, "cancelled")
            options = {"pool": self.cast.pool, "task_id": session}
            running = await insist(lambda: self._client.publish(task, options))
            if not await wait_for(lambda: running.has_started, within_s=BUSY_S, every_s=0.02):
                raise TimeoutError(f"{session} was not heard to run within {BUSY_S:.0f} s")
            return running

        return await asyncio.gather(*map(work, range(count)))

    async def let_go(self, running: RunningTask) -> Result:
        """Cancel a task that runs, and return its result."""
        await insist(lambda: running.cancel(wait_s=5.0))
        return await insist(lambda: running.result(wait_s=STORY_S))

    async def cancelled(self, name: str, task_name: str, task: Task) -> Result:
        """Publish a long task, cancel it when it runs, and return its result."""
        session, task_id = self.cast.id(name), self.cast.id(task_name)
        self.cast.expect(session, task_id, "cancelled")

        async def run() -> Result:
            running = await self._client.publish_next(session, task, {"task_id": task_id})
            await wait_for(lambda: running.has_started, within_s=PROMPT_S, every_s=0.02)
            return await self.let_go(running)

        return await insist(run)

    async def cancel(self, name: str, task_name: str | None = None) -> None:
        """Cancel a task that is not published yet."""
        task = self.cast.id(task_name or name)
        session = self.cast.id(name)
        pool = self.cast.pool
        await insist(lambda: self._client.cancel(task, session_id=session, pool=pool))

    async def asleep(self, name: str, before: str) -> None:
        """Wait until nobody owns a session; not if its next task was told already."""
        if await self._is_done(name, before):
            return
        session = self.cast.id(name)
        until = time.monotonic() + STORY_S / 2
        while time.monotonic() < until:
            answer = await insist(
                lambda: self._client.ask("session", ShowAsk(session=session), SessionAnswer)
            )
            if answer.record is not None and answer.record.state == "idle":
                return
            await asyncio.sleep(0.1)

    async def _is_done(self, name: str, task_name: str) -> bool:
        session, task = self.cast.id(name), self.cast.id(task_name)
        read = await insist(lambda: self._client.read_result(task, session_id=session))
        return read is not None

    async def sign(self) -> int | None:
        """Wait until the story's own fault strikes; return the process."""
        return await wait_for(self._sign, within_s=5 * PROMPT_S, every_s=0.005)

    def session(self, name: str) -> Session:
        """Return a session, to be asked about its snapshots."""
        return self._client.session(self.cast.id(name))

    async def fork(self, name: str, parent: str, snapshot: str) -> None:
        """Make a session that begins with a snapshot of another one."""
        fork = self.cast.id(name)
        self.cast.expect(fork, fork)
        await insist(lambda: self.session(parent).fork(snapshot, session_id=fork))

    async def garbage(self, name: str) -> None:
        """Publish what is no task."""
        task = self.cast.id(name)
        self.cast.expect(task, task, "rejected")
        subject = subjects.task(self.cast.tenant, self.cast.pool, "interactive")
        await insist(lambda: self._client.bus.publish_acked(subject, b"{", message_id=task))

        async def read() -> None:
            if await self._client.read_result(task) is None:
                raise Unavailable("not yet")

        await insist(read)
