"""Readers of streams that cost the machine little: a socket each, and no library."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import msgspec

from shared.rest import StreamEvent

_decoder = msgspec.json.Decoder(StreamEvent)


@dataclass
class Reader:
    """One stream."""

    read: asyncio.StreamReader
    write: asyncio.StreamWriter
    text: list[str] = field(default_factory=list)
    delays_ms: list[float] = field(default_factory=list)
    """From a line's writing to its reading; lines begin with their time, nanoseconds since 1970."""
    at_s: list[float] = field(default_factory=list)
    """When each of them was read, monotonic."""
    ended: bool = False

    async def read_all(self) -> None:
        """Read to the end."""
        while line := await self.read.readline():
            if not line.startswith(b"data: "):
                continue
            event = _decoder.decode(line[6:])
            if event.event == "result":
                self.ended = True
                return
            if event.event == "output" and event.text:
                self.text.append(event.text)
                now_ns = time.time_ns()
                for each in event.text.splitlines():
                    self.delays_ms.append((now_ns - int(each.split()[0])) / 1e6)
                    self.at_s.append(time.monotonic())

    async def close(self) -> None:
        """Leave."""
        self.write.close()


async def open_reader(url: str, token: str, task: str) -> Reader:
    """Open a stream; return when its head has come."""
    where = urlsplit(url)
    # A small buffer: what a slow reader does not take must wait in the gateway, not here.
    read, write = await asyncio.open_connection(where.hostname, where.port, limit=2 * 1024 * 1024)
    write.write(
        f"GET /v1/tasks/{task}/output HTTP/1.1\r\nHost: {where.netloc}\r\n"
        f"Authorization: Bearer {token}\r\n\r\n".encode()
    )
    status = await read.readline()
    if b" 200 " not in status:
        raise ConnectionError(f"stream of {task}: {status.decode(errors='replace').strip()}")
    while (await read.readline()).strip():
        pass
    return Reader(read, write)
