"""A tiny HTTP server for probes, in a thread with an event loop of its own. It reads requests without a body.

The standard library's has no deadline for a whole request: who sends a byte now and then would hold a thread for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from shared.errors import Rejected

HEAD_BYTES_MAX: Final = 8 * 1024
REQUEST_S: Final = 5.0
"""For a whole request and its answer."""
CONNECTIONS_MAX: Final = 32
"""At once; when all are taken, the oldest makes room: who only holds them must not make a service look hung."""
LOOK_S: Final = 0.5
STOP_S: Final = 2.0
LAST_ROUNDS: Final = 3
_PHRASES: Final = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable",
}  # fmt: skip


class Answer(NamedTuple):
    """What a path answers."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Paths = dict[str, Callable[[str], Answer]]
"""Path -> what answers it, given the request's `Accept` header. Called in the listener's thread."""


class Listener:
    """Serves until `stop`."""

    def __init__(self, address: str, paths: Paths, look: Callable[[], object]) -> None:
        """Describe it.

        Args:
            address: `host:port`; port 0: a free one.
            paths: what there is.
            look: called twice a second.

        Raises:
            Rejected: not an address.
        """
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise Rejected(f"probes: host:port expected, got {address[:100]!r}")
        self._host, self._port = host.strip("[]"), int(port)
        self._paths, self._look = paths, look
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._looking: asyncio.Task[None] | None = None
        self._open: dict[asyncio.StreamWriter, None] = {}
        """From the oldest to the newest."""
        self._thread = threading.Thread(target=self._loop.run_forever, name="probes", daemon=True)

    def start(self) -> str:
        """Listen; return the URL.

        Raises:
            Rejected: it can not listen there.
        """
        self._thread.start()
        try:
            port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(STOP_S)
        except OSError as exc:
            self.stop()
            raise Rejected(f"probes on {self._host}:{self._port}: {exc}") from exc
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{port}"

    def stop(self) -> None:
        """End the thread and all its connections; once more does nothing."""
        if not self._thread.is_alive():
            return
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(STOP_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _listen(self) -> int:
        self._server = server = await asyncio.start_server(
            self._serve, self._host, self._port, limit=HEAD_BYTES_MAX
        )
        self._looking = asyncio.create_task(self._keep_looking())
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _keep_looking(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(LOOK_S)

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(LAST_ROUNDS):  # sockets close in rounds of their own
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        try:
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(REQUEST_S):
                    await self._answer(reader, writer)
                    writer.close()
                    await writer.wait_closed()
        finally:
            self._open.pop(writer, None)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            head = ""
        method, answer = self._find(head)
        lines = (
            f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        )
        writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        if method != "HEAD":
            writer.write(answer.body)
        await writer.drain()

    def _find(self, head: str) -> tuple[str, Answer]:
        line, *fields = head.split("\r\n")
        words = line.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "", Answer(400, b"not a request\n")
        method, target, _ = words
        path = target.partition("?")[0]
        if path not in self._paths:
            return method, Answer(404, f"there are: {' '.join(self._paths)}\n".encode())
        if method not in ("GET", "HEAD"):
            return method, Answer(405, b"GET only\n")
        accept = ""
        for field in fields:
            name, _, value = field.partition(":")
            if name.strip().lower() == "accept":
                accept = value.strip()
        return method, self._paths[path](accept)
