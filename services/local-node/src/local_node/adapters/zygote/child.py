"""A forked child as the node sees it, and descriptors of processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable

from local_node.ports import Exit
from shared.errors import Unavailable

Signal = Callable[[int, int], Awaitable[None]]
"""(key, number of the signal). Raises Unavailable where the zygote is gone."""


class ZygoteChild:
    """A forked child."""

    def __init__(self, key: int, by_zygote: Signal, *, by_node: bool) -> None:
        """Describe a child that its zygote knows as `key`.

        Args:
            key: number within its zygote.
            by_zygote: has the zygote send a signal.
            by_node: the node signals it itself, where it can.
        """
        self.key = key
        self._by_zygote = by_zygote
        self._by_node = by_node
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[int] = loop.create_future()
        self.exited: asyncio.Future[Exit] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.error = ""
        self._process_fd: int | None = None

    @property
    def pid(self) -> int:
        """Process number on the host."""
        return self.started.result()

    async def kill(self, number: int) -> None:
        """Send a signal; SIGKILL to a sandbox ends all its processes. Nothing happens once it has ended."""
        if self.exited.done():
            return
        if self._process_fd is not None and self._by_node:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process_fd, number)
            return
        with contextlib.suppress(Unavailable):  # the zygote is gone, and its children with it
            await self._by_zygote(self.key, number)

    def has_started(self, pid: int) -> None:
        """Take in its process number."""
        with contextlib.suppress(
            OSError
        ):  # it has ended, or there are no descriptors left: the zygote can do it too
            self._process_fd = os.pidfd_open(pid)
        self.started.set_result(pid)

    def has_exited(self, how: Exit) -> None:
        """Take in its end."""
        fd, self._process_fd = self._process_fd, None
        if fd is not None:
            os.close(fd)
        if not self.exited.done():
            self.exited.set_result(how)

    async def wait_process_gone(self) -> None:
        """Wait until its process has ended, whoever reaps it; where that cannot be seen, not at all."""
        if self._process_fd is not None:
            await wait_readable(self._process_fd)


async def wait_readable(fd: int) -> None:
    """Wait until a descriptor can be read; a process's own can be when it has ended."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, set_once, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def set_once(future: asyncio.Future[None]) -> None:
    """Settle a future that may be settled already."""
    if not future.done():
        future.set_result(None)
