"""Somebody before a task's terminal: types, and waits for what he sees."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from worker_agent.adapters.runner import Exit, Run, RunnerChannel, Watch
from worker_agent.adapters.runner_messages import Size

SEE_S = 10.0
SHELL = ("/bin/sh", "-i")


class Sitting:
    """One task in a terminal."""

    def __init__(self, channel: RunnerChannel, task: str, **fields: Any) -> None:
        """Start the task."""
        self.channel = channel
        self.started = asyncio.Event()
        self.seen = b""
        self.reads = True
        self._more = asyncio.Condition()
        given = {"argv": SHELL, "tty": Size(rows=24, cols=80), "env": {"PS1": "> ", "TERM": "dumb"}}
        run = Run(task=task, kind="command", **{**given, **fields})
        self.ending = asyncio.create_task(channel.run(run, Watch(self._start, self._see)))

    async def _start(self, _at_ns: int) -> None:
        self.started.set()

    async def _see(self, stream: str, data: bytes) -> None:
        assert stream == "stdout"
        async with self._more:
            await self._more.wait_for(lambda: self.reads)
            self.seen += data
            self._more.notify_all()

    async def read(self, reads: bool) -> None:
        """Look away, or again."""
        async with self._more:
            self.reads = reads
            self._more.notify_all()

    def type(self, text: str | bytes) -> None:
        """Type; what there is no room for is an error of the test."""
        data = text.encode() if isinstance(text, str) else text
        assert len(data) <= self.channel.terminal.room_bytes
        self.channel.terminal.type(data)

    async def see(self, text: str | bytes) -> bytes:
        """Wait until `text` appears; return all up to its end, and forget it."""
        wanted = text.encode() if isinstance(text, str) else text
        try:
            async with asyncio.timeout(SEE_S), self._more:
                await self._more.wait_for(lambda: wanted in self.seen)
        except TimeoutError as exc:
            raise AssertionError(f"{wanted!r} is not in {self.seen[-2000:]!r}") from exc
        upto = self.seen.index(wanted) + len(wanted)
        seen, self.seen = self.seen[:upto], self.seen[upto:]
        return seen

    async def ended(self) -> Exit:
        """Wait for its end."""
        async with asyncio.timeout(SEE_S):
            return await self.ending


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started and still has."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def terminals_of(pid: int, *, with_children: bool = True) -> list[str]:
    """Return the terminals that a process holds, and its children (a runner may be one of `unshare`)."""
    children = children_of(pid) if with_children else []
    found: list[str] = []
    for one in (pid, *children):
        try:
            entries = list(Path(f"/proc/{one}/fd").iterdir())
        except PermissionError:  # a process that let nobody look into it, and we are not root
            pytest.skip("not root: what the runner holds is shut to us")
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.append(str(entry.readlink()))
    return [link for link in found if "/pt" in link]
