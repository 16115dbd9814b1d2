"""A network between real programs that can be cut: bytes go through here, until they do not.

A cut link is what packets lost for good look like to both ends: nothing arrives, no connection is refused or ended,
what is written waits in buffers. When it is healed, what waited arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from shared.cluster.ports import LOOPBACK

READ_BYTES = 64 * 1024
LAST_ROUNDS = 5
T = TypeVar("T")


class Link:
    """One way from a dialler to a port. Belongs to the relay's own loop, but for `port`."""

    def __init__(self, target: int, host: str = LOOPBACK) -> None:
        """Lead to a port, of this machine unless another is named."""
        self.port = 0
        """Where to dial."""
        self._target = (host, target)
        self._healed = asyncio.Event()
        self._healed.set()
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self) -> asyncio.Server:
        """Listen."""
        server = await asyncio.start_server(self._accept, LOOPBACK, 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def cut(self) -> None:
        """Let nothing through any more."""
        self._healed.clear()

    def heal(self) -> None:
        """Let all through again, what waited first."""
        self._healed.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a dialler, by a task of our own: Python 3.11 complains of its own ones when they are cancelled."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # also where it never began

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join a dialler with the target until either ends, and the link is whole to tell the other."""
        try:
            await self._healed.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass(reader, far_writer))
                    group.create_task(self._pass(far_reader, writer))
            finally:
                far_writer.transport.abort()
        except* (OSError, EOFError):
            pass

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while True:
            try:
                data = await source.read(READ_BYTES)
            except OSError:  # cut off hard; the other end learns it like an end in good order
                data = b""
            await self._healed.wait()
            if not data:
                raise EOFError
            sink.write(data)
            await sink.drain()


class Relay:
    """Links, served by a thread of their own: a test's loop that stands still must not stop the network."""

    def __init__(self) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def link(self, target: int, host: str = LOOPBACK) -> Link:
        """Return a new link to a port, of this machine unless another is named; it listens."""

        async def make() -> Link:
            link = Link(target, host)
            self._servers.append(await link.open())
            return link

        return asyncio.run_coroutine_threadsafe(make(), self._loop).result(10)

    def do(self, act: Callable[[], T]) -> None:
        """Call a link's `cut` or `heal`, in the relay's loop; it is done when this returns."""

        async def acted() -> T:
            return act()

        asyncio.run_coroutine_threadsafe(acted(), self._loop).result(10)

    def close(self) -> None:
        """End all links and the thread."""

        async def end() -> None:
            for server in self._servers:
                server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await asyncio.gather(*tasks, return_exceptions=True)
            for _ in range(LAST_ROUNDS):  # sockets close in rounds of their own
                await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
