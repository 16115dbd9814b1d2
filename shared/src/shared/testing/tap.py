"""A way to servers on which a test sees what is said, and holds it at a chosen word: then something happens just there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import urlsplit

from shared.cluster.ports import LOOPBACK

READ_BYTES = 64 * 1024
Way = Literal["up", "down"]
"""To the server, or from it."""


class Stage:
    """One word on one connection. What comes before it passes; it and all behind it wait."""

    def __init__(self, text: bytes, nth: int) -> None:
        """Use `Tap.hold`."""
        self.reached = asyncio.Event()
        """The word is here."""
        self._text = text
        self._nth = nth
        self._go = asyncio.Event()
        self._heard = bytearray()

    def go(self) -> None:
        """Let it pass."""
        self._go.set()

    async def wait(self, within_s: float = 10.0) -> None:
        """Wait until the word is here."""
        async with asyncio.timeout(within_s):
            await self.reached.wait()

    async def sift(self, data: bytes, sink: asyncio.StreamWriter) -> bytes:
        """Pass on what comes before the word; wait there; return what is left to pass on."""
        if self.reached.is_set():
            await self._go.wait()
            return data
        start = len(self._heard)
        self._heard += data
        place = -1
        for _ in range(self._nth):
            place = self._heard.find(self._text, place + 1)
            if place < 0:
                return data
        before = max(0, place - start)
        sink.write(data[:before])
        self.reached.set()
        await self._go.wait()
        return data[before:]


class Talk:
    """One connection; both its ends can be cut."""

    def __init__(self, ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
        """Use `Tap`."""
        self.said = bytearray()
        """All that came from the client."""
        self.ended = asyncio.Event()
        self._ends = ends

    def cut(self) -> None:
        """End it hard, for both."""
        for end in self._ends:
            end.transport.abort()


class Tap:
    """Listens where clients connect, and leads each connection to a server. Connections are counted from 1."""

    def __init__(self, servers: Sequence[str]) -> None:
        """Lead the first connection to the first server, and so on; all further ones to the last. Use `tapped`."""
        self.port = 0
        self.talks: list[Talk] = []
        self.serving: set[asyncio.Task[None]] = set()
        """One for each of them."""
        self._servers = [urlsplit(server) for server in servers]
        self._stages: dict[tuple[int, Way], Stage] = {}

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{LOOPBACK}:{self.port}"

    @property
    def open(self) -> int:
        """How many connections there are now."""
        return sum(not talk.ended.is_set() for talk in self.talks)

    def hold(self, connection: int, way: Way, text: bytes, nth: int = 1) -> Stage:
        """Hold what is said on a connection at the nth `text` from now on (one that is to come: from its beginning)."""
        stage = Stage(text, nth)
        self._stages[connection, way] = stage
        return stage

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a client."""
        self.serving.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join a client with its server until either ends."""
        number = len(self.talks) + 1
        try:
            server = self._servers[min(number, len(self._servers)) - 1]
            far_reader, far_writer = await asyncio.open_connection(server.hostname, server.port)
        except OSError:
            writer.transport.abort()
            return
        talk = Talk((writer, far_writer))
        self.talks.append(talk)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass((number, "up"), reader, far_writer))
                group.create_task(self._pass((number, "down"), far_reader, writer))
        except* (OSError, EOFError):
            pass
        finally:
            talk.cut()
            talk.ended.set()

    async def _pass(
        self, place: tuple[int, Way], source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        while data := await source.read(READ_BYTES):
            number, way = place
            if way == "up":
                self.talks[number - 1].said += data
            stage = self._stages.get(place)
            sink.write(data if stage is None else await stage.sift(data, sink))
            await sink.drain()
        raise EOFError


@asynccontextmanager
async def tapped(servers: Sequence[str]) -> AsyncIterator[Tap]:
    """Yield a tap that leads to servers, given by their addresses: see `Tap`."""
    tap = Tap(servers)
    server = await asyncio.start_server(tap.accept, LOOPBACK, 0)
    tap.port = server.sockets[0].getsockname()[1]
    try:
        yield tap
    finally:
        server.close()
        for task in tap.serving:
            task.cancel()
        await asyncio.gather(*tap.serving, return_exceptions=True)
        await asyncio.sleep(0)  # aborted sockets close in the next round
