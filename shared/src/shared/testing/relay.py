"""A network between real programs that can be cut and slowed: bytes go through here, until they do not.

A cut link is what packets lost for good look like to both ends: nothing arrives, no connection is refused or ended,
what is written waits in buffers. When it is healed, what waited arrives. Each of its two ways can be cut for itself.
A shaped way delays what passes; order is kept, as TCP keeps it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from shared.cluster.ports import LOOPBACK

READ_BYTES = 64 * 1024
WAITING_MAX = 64
"""Chunks that wait in one direction of one connection; then the sender waits, as behind a full window."""
DIAL_S = 5.0
LAST_ROUNDS = 5
T = TypeVar("T")
Shape = Callable[[], float]
"""Returns how long the next chunk is under way, seconds."""


class Way:
    """One direction of a link. Belongs to the relay's own loop; its counts may be read from anywhere."""

    def __init__(self) -> None:
        """Let all through at once."""
        self.passed_bytes = 0
        self.withheld = 0
        """Chunks, ends of connections among them, that came while the way was cut."""
        self.delayed = 0
        """Chunks that a shape delayed."""
        self._open = asyncio.Event()
        self._open.set()
        self._shape: Shape | None = None

    @property
    def is_cut(self) -> bool:
        """Whether nothing passes."""
        return not self._open.is_set()

    def cut(self) -> None:
        """Let nothing through any more."""
        self._open.clear()

    def heal(self) -> None:
        """Let all through again, what waited first, and at once."""
        self._shape = None
        self._open.set()

    def shape(self, shape: Shape) -> None:
        """Delay each chunk from now on."""
        self._shape = shape

    def due(self, now: float, after: float) -> float:
        """Return when what has just come may go on: never before what came earlier."""
        if self._shape is None:
            return now
        self.delayed += 1
        return max(after, now + self._shape())

    async def whole(self) -> None:
        """Wait until it is not cut."""
        if self.is_cut:
            self.withheld += 1
        await self._open.wait()


class Link:
    """A way there and a way back between diallers and a port. Belongs to the relay's own loop, but for `port`."""

    def __init__(self, target: int, host: str = LOOPBACK) -> None:
        """Lead to a port, of this machine unless another is named."""
        self.port = 0
        """Where to dial."""
        self.there = Way()
        """From diallers to the port."""
        self.back = Way()
        self._target = (host, target)
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def ways(self) -> tuple[Way, Way]:
        """Both."""
        return self.there, self.back

    async def open(self) -> asyncio.Server:
        """Listen."""
        server = await asyncio.start_server(self._accept, LOOPBACK, 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def cut(self) -> None:
        """Let nothing through any more, either way."""
        for way in self.ways:
            way.cut()

    def heal(self) -> None:
        """Let all through again, what waited first."""
        for way in self.ways:
            way.heal()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a dialler, by a task of our own: Python 3.11 complains of its own ones when they are cancelled."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # also where it never began

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join a dialler with the target until either ends, and the link is whole to tell the other."""
        try:
            await self.there.whole()
            async with asyncio.timeout(DIAL_S):
                far_reader, far_writer = await asyncio.open_connection(*self._target)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(_pass(self.there, reader, far_writer))
                    group.create_task(_pass(self.back, far_reader, writer))
            finally:
                far_writer.transport.abort()
        except* (OSError, EOFError):
            pass


async def _pass(way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Bring what comes to where it goes. Raises EOFError at the end of it, OSError where nobody takes it."""
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WAITING_MAX)
    reading = asyncio.create_task(_read(way, source, waiting))
    now = asyncio.get_running_loop().time
    try:
        while True:
            due, data = await waiting.get()
            if (early := due - now()) > 0:
                await asyncio.sleep(early)
            await way.whole()
            if not data:
                raise EOFError
            sink.write(data)
            await sink.drain()
            way.passed_bytes += len(data)
    finally:
        reading.cancel()


async def _read(
    way: Way, source: asyncio.StreamReader, waiting: asyncio.Queue[tuple[float, bytes]]
) -> None:
    now = asyncio.get_running_loop().time
    due, data = 0.0, b"?"
    while data:
        try:
            data = await source.read(READ_BYTES)
        except OSError:  # cut off hard; the other end learns it like an end in good order
            data = b""
        due = way.due(now(), due)
        await waiting.put((due, data))


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
        """Call a link's or a way's `cut`, `heal` or `shape`, in the relay's loop; it is done when this returns."""

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
