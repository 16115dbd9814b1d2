"""Files on their way between object store and workspace: piece by piece, so that no more than a window is ever held.

While the sandbox is frozen nothing moves; `stop` ends a transfer at any moment. A file that did not arrive whole, or is
not what its reference says, leaves what was in its place before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing
from typing import Any, Literal, TypeVar

from shared import limits
from shared.errors import ServiceError
from shared.files import ObjectRef, OutputFile, Transfer
from shared.task import Extract, InputFile
from worker_agent.adapters.runner_files import RunnerFiles
from worker_agent.adapters.runner_messages import FileFailed, RunnerLost
from worker_agent.ports import RunOrder

PROGRESS_S = 0.25
"""At most one word of progress in so long."""
MIB = 1 << 20
T = TypeVar("T")


class Stopped(Exception):
    """`stop` came before the transfer, or in the middle of it."""


class _Meter:
    """Tells how far a transfer is, now and then, and at its end."""

    def __init__(self, order: RunOrder, path: str, direction: Literal["in", "out"]) -> None:
        self._order, self._path = order, path
        self._direction: Literal["in", "out"] = direction
        self._told = asyncio.get_running_loop().time()
        self.done_bytes = 0

    async def add(self, size_bytes: int, total_bytes: int) -> None:
        self.done_bytes += size_bytes
        now = asyncio.get_running_loop().time()
        if now - self._told >= PROGRESS_S:
            self._told = now
            await self.tell(total_bytes)

    async def tell(self, total_bytes: int) -> None:
        done_bytes = min(self.done_bytes, total_bytes)
        await self._order.on_progress(
            Transfer(
                path=self._path,
                direction=self._direction,
                done_bytes=done_bytes,
                total_bytes=total_bytes,
            )
        )


class Transfers:
    """The transfers of one sandbox, one after another."""

    def __init__(self, files: RunnerFiles) -> None:
        """Move through the runner's file operations."""
        self._files = files
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._stopped = False
        self._moving: asyncio.Future[Any] | None = None

    def begin(self) -> None:
        """Forget the stop of the run before."""
        self._stopped = False

    def stop(self) -> None:
        """End the transfer that is under way; none begins until `begin`."""
        self._stopped = True
        if self._moving is not None:
            self._moving.cancel()

    def freeze(self) -> None:
        """Let nothing move."""
        self._thawed.clear()

    def thaw(self) -> None:
        """Go on."""
        self._thawed.set()

    async def fetch(self, order: RunOrder, disk_mib: int) -> None:
        """Write a task's input files into the workspace.

        Raises:
            FileFailed: a file can't be written, or an object can't be had; names the field and the reason.
            RunnerLost: the sandbox is gone.
            Stopped: `stop` came.
        """
        files: tuple[InputFile, ...] = order.task.files
        self._check_room(files, disk_mib)
        for index, file in enumerate(files):
            if file.object is None:
                await self._files.write(file.path, _once(file.content()), mode=file.mode)
            else:
                field = f"files[{index}].object"
                await self._move(self._fetch(order, file, file.object), field)

    async def store(self, order: RunOrder, path: str, field: str) -> OutputFile:
        """Put a file of the workspace into the object store.

        Raises:
            FileFailed: it can't be read or stored; names the field and the reason.
            RunnerLost: the sandbox is gone.
            Stopped: `stop` came.
        """
        return await self._move(self._store(order, path), field)

    async def archive(self, order: RunOrder, path: str) -> OutputFile:
        """Put a directory of the workspace, or a file, into the object store as a tar archive.

        Raises:
            FileFailed: it can't be read or stored; names the reason.
            RunnerLost: the sandbox is gone.
            Stopped: `stop` came.
        """
        return await self._move(self._archive(order, path), "path")

    async def extract(self, order: RunOrder, disk_mib: int) -> None:
        """Write the members of a task's tar archive below a directory of the workspace.

        Raises:
            FileFailed: a member can't be written, or the archive can't be had or read; names the reason.
            RunnerLost: the sandbox is gone.
            Stopped: `stop` came.
        """
        asked: Extract = order.task
        if asked.object.size_bytes > disk_mib * MIB:
            raise _too_much("object", asked.object.size_bytes, disk_mib)
        await self._move(self._extract(order, asked), "object")

    def _check_room(self, files: tuple[InputFile, ...], disk_mib: int) -> None:
        """Refuse what can't fit before any of it is moved."""
        size_bytes = 0
        for index, file in enumerate(files):
            size_bytes += file.object.size_bytes if file.object is not None else 0
            if size_bytes > disk_mib * MIB:
                raise _too_much(f"files[{index}].object", size_bytes, disk_mib)

    async def _move(self, work: Coroutine[Any, Any, T], field: str) -> T:
        if self._stopped:
            work.close()
            raise Stopped
        moving: asyncio.Future[T] = asyncio.ensure_future(work)
        self._moving = moving
        try:
            await asyncio.wait({moving})
        finally:
            moving.cancel()
            self._moving = None
        if moving.cancelled():
            raise Stopped
        try:
            return moving.result()
        except RunnerLost:
            raise
        except FileFailed as exc:
            raise FileFailed(exc.reason, f"{field}: {exc}") from exc
        except ServiceError as exc:
            raise FileFailed(exc.code, f"{field}: {exc}") from exc

    async def _fetch(self, order: RunOrder, file: InputFile, reference: ObjectRef) -> None:
        meter = _Meter(order, file.path, "in")
        async with aclosing(self._pieces(order, reference, meter)) as pieces:
            await self._files.write(file.path, pieces, mode=file.mode)
        await meter.tell(reference.size_bytes)

    async def _pieces(
        self, order: RunOrder, reference: ObjectRef, meter: _Meter
    ) -> AsyncGenerator[bytes, None]:
        async with aclosing(order.objects.read(reference)) as chunks:
            async for chunk in chunks:
                await self._thawed.wait()
                yield chunk
                await meter.add(len(chunk), reference.size_bytes)

    async def _store(self, order: RunOrder, path: str) -> OutputFile:
        meter = _Meter(order, path, "out")

        async def nothing(_piece: bytes) -> None:
            """Of no bytes, none come."""

        found = await self._files.read(path, nothing, limit=0)
        _check_size(path, found.size)
        writer = order.objects.writer()

        async def store(piece: bytes) -> None:
            await self._thawed.wait()
            await writer.write(piece)
            await meter.add(len(piece), found.size)

        try:
            await self._files.read(path, store, limit=found.size)
            reference = await writer.close()
        finally:
            await writer.abandon()
        await meter.tell(reference.size_bytes)
        return OutputFile(path=path, object=reference, mode=found.mode & 0o777)

    async def _archive(self, order: RunOrder, path: str) -> OutputFile:
        meter = _Meter(order, path, "out")

        async def nothing(_piece: bytes) -> None:
            """Measuring, the runner sends signs of life alone."""

        found = await self._files.archive(path, nothing, measure=True)
        _check_size(path, found.size)
        _check_entries(found.entries)
        writer = order.objects.writer()
        stored_bytes = 0

        async def store(piece: bytes) -> None:
            nonlocal stored_bytes
            stored_bytes += len(piece)
            _check_size(path, stored_bytes)  # it may have grown since
            await self._thawed.wait()
            await writer.write(piece)
            await meter.add(len(piece), max(found.size, stored_bytes))

        try:
            await self._files.archive(path, store)
            reference = await writer.close()
        finally:
            await writer.abandon()
        await meter.tell(reference.size_bytes)
        return OutputFile(path=path, object=reference)

    async def _extract(self, order: RunOrder, task: Extract) -> None:
        meter = _Meter(order, task.path, "in")
        async with aclosing(self._pieces(order, task.object, meter)) as pieces:
            await self._files.extract(task.path, pieces, entries_max=limits.ARCHIVE_ENTRIES_MAX)
        await meter.tell(task.object.size_bytes)


def _too_much(field: str, size_bytes: int, disk_mib: int) -> FileFailed:
    said = f"{field}: {size_bytes} bytes of objects, the pool's disk_mib is {disk_mib}"
    return FileFailed("disk_full", said)


def _check_size(path: str, size_bytes: int) -> None:
    if size_bytes > limits.OBJECT_BYTES_MAX:
        said = f"{path}: {size_bytes} bytes, an object holds {limits.OBJECT_BYTES_MAX}"
        raise FileFailed("too_large", said)


def _check_entries(entries: int) -> None:
    if entries > limits.ARCHIVE_ENTRIES_MAX:
        said = f"{entries} members, at most {limits.ARCHIVE_ENTRIES_MAX} (ARCHIVE_ENTRIES_MAX)"
        raise FileFailed("limit_exceeded", said)


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
