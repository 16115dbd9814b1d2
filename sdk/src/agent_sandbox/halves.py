"""Progress of a file that goes two ways one after the other: between here and the object store, and on from there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_sandbox.events import Progress
from agent_sandbox.leaving import bounded
from agent_sandbox.objects import Objects, OnProgress
from agent_sandbox.results import Result
from agent_sandbox.running import RunningTask
from shared.files import ObjectRef

TAKE_BACK_S = 5.0
"""Longest wait, on the way out, for a task to be taken back."""


class Halves:
    """A byte counts half when it has gone one way, and wholly when it has gone both; told only where it grows."""

    def __init__(self, tell: OnProgress | None) -> None:
        """Tell `tell`, if anybody."""
        self._tell = tell
        self._told_bytes = -1
        self._first_bytes = 0

    def first(self, done_bytes: int, total_bytes: int | None) -> None:
        """Note how far the first way is."""
        self._first_bytes = done_bytes
        self._say(done_bytes // 2, total_bytes)

    def second(self, done_bytes: int, total_bytes: int | None) -> None:
        """Note how far the second way is."""
        self._say((self._first_bytes + done_bytes) // 2, total_bytes)

    def _say(self, done_bytes: int, total_bytes: int | None) -> None:
        if self._tell is not None and done_bytes > self._told_bytes:
            self._told_bytes = done_bytes
            self._tell(done_bytes, total_bytes)

    async def attend(self, running: RunningTask) -> Result:
        """Follow a task to its result: into the workspace is the second way, out of it the first."""
        async with running:
            async for event in running.events():
                if isinstance(event, Progress):
                    note = self.second if event.direction == "in" else self.first
                    note(event.done_bytes, event.total_bytes)
            return await running.result()

    async def input(self, running: RunningTask, reference: ObjectRef) -> Result:
        """Follow the task that takes an object into the workspace; return its result.

        Raises:
            TaskFailed: it could not.
        """
        result = (await self.attend(running)).check()
        self.second(reference.size_bytes, reference.size_bytes)
        return result

    @asynccontextmanager
    async def output(
        self, running: RunningTask, objects: Objects
    ) -> AsyncIterator[tuple[Result, ObjectRef]]:
        """Follow a task that makes one object for us alone; yield its result and the object, which goes in the end.

        Where we do not wait for it, it is taken back: nobody would ever fetch what it makes.

        Raises:
            TaskFailed: it made none.
        """
        try:
            result = await self.attend(running)
        except BaseException:
            await bounded(_take_back(running, objects), TAKE_BACK_S)
            raise
        (reference,) = result.check().outputs.values()
        try:
            self.first(reference.size_bytes, reference.size_bytes)
            yield result, reference
        finally:
            await objects.discard(reference.id)


async def _take_back(running: RunningTask, objects: Objects) -> None:
    answer = await running.cancel(wait_s=TAKE_BACK_S)
    if answer.outcome == "finished":
        result = await running.result(wait_s=TAKE_BACK_S)
        await objects.drop(*(reference.id for reference in result.outputs.values()))
