"""Progress of a file that goes two ways one after the other: between here and the object store, and on from there."""

from __future__ import annotations

from agent_sandbox.events import Progress
from agent_sandbox.objects import OnProgress
from agent_sandbox.results import Result
from agent_sandbox.running import RunningTask


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
        async for event in running.events():
            if isinstance(event, Progress):
                note = self.second if event.direction == "in" else self.first
                note(event.done_bytes, event.total_bytes)
        return await running.result()
