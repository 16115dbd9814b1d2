"""File operations in the sandbox, by the runner, and its answers to other requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import suppress

from sandbox_runner import protocol
from shared.files import FileEntry
from worker_agent.adapters import runner_messages as messages
from worker_agent.adapters.runner_messages import (
    Done,
    FileFailed,
    Listing,
    ProtocolViolation,
    RunnerLimits,
    RunnerLost,
)
from worker_agent.adapters.runner_wire import Flow, Wire

Sink = Callable[[bytes], Awaitable[None]]


async def _nowhere(_data: bytes) -> None:
    """For operations that bring no data."""


class RunnerFiles:
    """Paths are relative to the workspace, or absolute and below it. One operation at a time; further ones wait."""

    def __init__(self, wire: Wire, limits: RunnerLimits) -> None:
        """Speak over `wire`."""
        self._wire = wire
        self._limits = limits
        self._lock = asyncio.Lock()
        self._last_op = 0
        self._op = 0
        self._flow: Flow | None = None
        self._reads = False
        self._answers: dict[int, asyncio.Future[None]] = {}

    async def write(self, path: str, chunks: AsyncIterable[bytes], *, mode: int = 0o644) -> int:
        """Replace a file as a whole, or make it, with the directories above it.

        Args:
            path: where.
            chunks: its content, in pieces of any size; an exception of theirs leaves the old file as it was.
            mode: its permissions.

        Returns:
            Its size, bytes.

        Raises:
            FileFailed: the reason and the path; `disk_full` among them.
            RunnerLost: the file may have been replaced.
        """
        done = await self._operate(protocol.WRITE, {"path": path, "mode": mode}, feed=chunks)
        return done.size

    async def read(
        self, path: str, sink: Sink, *, offset: int = 0, limit: int | None = None
    ) -> Done:
        """Read a regular file, or a piece of it.

        Args:
            path: which.
            sink: takes the pieces, up to 64 KiB each, in order.
            offset: bytes to skip.
            limit: bytes at most.

        Returns:
            `size` of the whole file, `mode`, `mtime_ms`.

        Raises:
            FileFailed: the reason and the path.
            RunnerLost: the sandbox is gone.
        """
        left = limit

        async def bounded(data: bytes) -> None:
            nonlocal left
            if left is not None:
                left -= len(data)
                if left < 0:
                    raise self._violated("more bytes of a file than asked for")
            await sink(data)

        request: dict[str, object] = {"path": path, "offset": offset}
        if limit is not None:
            request["limit"] = limit
        return await self._operate(protocol.READ, request, sink=bounded)

    async def list(self, path: str = ".", *, limit: int = protocol.LIST_ENTRIES_MAX) -> Listing:
        """List a directory; of anything else, the one entry that it is.

        Args:
            path: which.
            limit: entries at most, up to 10,000.

        Returns:
            Entries sorted by name (bytes that are no UTF-8 as `\\xNN`), of type file, directory, symlink or other.

        Raises:
            FileFailed: the reason and the path.
            RunnerLost: the sandbox is gone.
        """
        found: list[FileEntry] = []

        async def collect(data: bytes) -> None:
            try:
                found.extend(messages.entries.decode(data))
            except (ValueError, RecursionError) as exc:
                raise self._violated(f"a listing can't be read: {exc}") from exc
            if len(found) > limit:
                raise self._violated("more entries than asked for")

        request: dict[str, object] = {"path": path, "limit": limit}
        done = await self._operate(protocol.LIST, request, sink=collect)
        return Listing(entries=tuple(found), truncated=done.truncated)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a symbolic link, or a directory, with what is in it if `recursive`.

        Raises:
            FileFailed: the reason and the path; something may be gone already if `recursive`.
            RunnerLost: the sandbox is gone.
        """
        await self._operate(protocol.REMOVE, {"path": path, "recursive": recursive})

    async def archive(self, path: str, sink: Sink, *, measure: bool = False) -> Done:
        """Read a directory, or a file, as a tar archive.

        Args:
            path: which.
            sink: takes the archive's pieces, up to 64 KiB each, in order.
            measure: only say how large it would be.

        Returns:
            `size` of the archive and its `entries`.

        Raises:
            FileFailed: the reason and the path.
            RunnerLost: the sandbox is gone.
        """
        request = {"path": path, "measure": measure}
        return await self._operate(protocol.ARCHIVE, request, sink=sink)

    async def extract(self, path: str, chunks: AsyncIterable[bytes], *, entries_max: int) -> Done:
        """Write a tar archive's members below a directory.

        Args:
            path: the directory, which is made.
            chunks: the archive; an exception of theirs leaves what was written before.
            entries_max: members at most.

        Returns:
            `size` of what was read of the archive, and its `entries`.

        Raises:
            FileFailed: the reason and the member; members before it may have been written.
            RunnerLost: the sandbox is gone.
        """
        request = {"path": path, "entries_max": entries_max}
        return await self._operate(protocol.EXTRACT, request, feed=chunks)

    async def request(self, kind: int) -> None:
        """Make a request that is answered by a bare DONE.

        Raises:
            RunnerLost: it was not.
        """
        op = self._next_op()
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wire.send(messages.encode(kind, {"op": op}))
        self._answers[op] = answer
        try:
            async with asyncio.timeout(self._limits.reply_s):
                await answer
        except TimeoutError as exc:
            raise self._fail(f"no answer within {self._limits.reply_s} s") from exc

    def on_frame(self, kind: int, payload: bytes) -> None:
        """Take in DATA, DONE or FAILED.

        Raises:
            ProtocolViolation: nobody has asked for it.
        """
        if kind == protocol.DATA:
            if self._flow is None or not self._reads:
                raise ProtocolViolation("DATA, but nothing is being read")
            self._flow.put_data(kind, payload)
            return
        answer = (messages.done if kind == protocol.DONE else messages.failed).decode(payload)
        if answer.op == self._op and self._flow is not None:
            flow, self._flow = self._flow, None
            flow.finish(kind, payload)
        elif kind == protocol.DONE and (waiter := self._answers.pop(answer.op, None)) is not None:
            if not waiter.done():
                waiter.set_result(None)
        else:
            raise ProtocolViolation(f"an answer to request {answer.op}, which is not open")

    def fail(self, failure: RunnerLost) -> None:
        """The channel has ended."""
        if self._flow is not None:
            self._flow.fail(failure)
        for waiter in self._answers.values():
            if not waiter.done():
                waiter.set_exception(failure)
        self._answers.clear()

    async def _operate(
        self,
        kind: int,
        request: dict[str, object],
        *,
        sink: Sink = _nowhere,
        feed: AsyncIterable[bytes] | None = None,
    ) -> Done:
        async with self._lock:
            await self._previous_gone()
            op = self._next_op()
            flow = Flow(f"file operation {op}", self._acknowledge)
            self._wire.send(messages.encode(kind, {"op": op, **request}))
            self._op, self._flow = op, flow
            self._reads = kind in (protocol.READ, protocol.LIST, protocol.ARCHIVE)
            open_end = feed is not None
            try:
                if feed is not None and await self._feed(flow, feed):
                    self._wire.send(messages.encode(protocol.END, {"op": op}))
                    open_end = False
                return await self._follow(flow, sink)
            finally:
                if not flow.ended.is_set():
                    flow.drop()
                    open_end = True
                if open_end and self._wire.failure is None:
                    self._wire.send(messages.encode(protocol.END, {"op": op, "abort": True}))

    async def _feed(self, flow: Flow, chunks: AsyncIterable[bytes]) -> bool:
        """Send the data; return whether all of it was, or the runner gave up before."""
        async for chunk in chunks:
            for at in range(0, len(chunk), protocol.CHUNK_BYTES):
                if flow.ended.is_set():
                    return False
                self._wire.send(
                    protocol.encode(protocol.DATA, chunk[at : at + protocol.CHUNK_BYTES])
                )
                await self._wire.drain(self._limits.reply_s)
        return True

    async def _follow(self, flow: Flow, sink: Sink) -> Done:
        while True:
            try:
                async with asyncio.timeout(self._limits.reply_s):
                    kind, payload = await flow.get()
            except TimeoutError as exc:
                raise FileFailed(
                    "timeout", f"{flow.name}: not done in {self._limits.reply_s} s"
                ) from exc
            if kind == protocol.DONE:
                return messages.done.decode(payload)
            if kind == protocol.FAILED:
                failed = messages.failed.decode(payload)
                raise FileFailed(failed.code, failed.message)
            await sink(payload)
            flow.used(kind, payload)

    async def _previous_gone(self) -> None:
        """Wait for the end of an operation that was given up."""
        if self._flow is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.reply_s):
                    await self._flow.ended.wait()
            if self._flow is not None:
                raise self._fail(f"{self._flow.name} was given up, but does not end")

    def _next_op(self) -> int:
        self._last_op += 1
        return self._last_op

    def _acknowledge(self, cost: int) -> None:
        if self._wire.failure is None:
            self._wire.send(protocol.encode_count(protocol.ACK_DATA, cost))

    def _fail(self, why: str) -> RunnerLost:
        self._wire.fail(RunnerLost(why))
        return self._wire.failure or RunnerLost(why)

    def _violated(self, why: str) -> RunnerLost:
        self._wire.fail(ProtocolViolation(why))
        return self._wire.failure or ProtocolViolation(why)
