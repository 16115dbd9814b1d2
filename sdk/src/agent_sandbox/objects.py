"""Content of any size by reference: into the object store, out of it, and along with a task."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec

from agent_sandbox.leaving import bounded
from agent_sandbox.made import Made
from agent_sandbox.orders import Content, RunOptions, check_options, input_file
from agent_sandbox.transport import Transport
from shared import limits
from shared.errors import InvalidMessage, LimitExceeded, ServiceError
from shared.files import ObjectRef
from shared.objects import ObjectWriter, read_chunks, write_chunks
from shared.task import InputFile

INLINE_BYTES_MAX = 128 * 1024
"""Files of one task that go in its message, together, as JSON has them; further ones go by reference."""
PIECE_BYTES = 256 * 1024
DISCARD_S = 3.0
"""Longest wait, on an error's way out, for the removal of what was made in vain."""
SETTLE_S = 1.0
"""Of that, for chunks that are on their way: stored behind the removal, they would stay."""

Source = Path | str | bytes | BinaryIO | AsyncIterator[bytes]
"""A file of this machine, text, bytes, an open binary file, or whatever yields bytes."""
OnProgress = Callable[[int, int | None], None]
"""Called now and then with bytes done, and bytes in all (None: not known before the end)."""


class Writable(Protocol):
    """An open binary file, or what takes bytes like one."""

    def write(self, data: bytes, /) -> object:
        """Take some."""
        ...


class Objects:
    """One tenant's objects. Immutable; they go after 48 hours, or when they are dropped."""

    def __init__(self, transport: Transport) -> None:
        """Use a client's way to the system."""
        self._transport = transport

    async def put(self, source: Source, *, on_progress: OnProgress | None = None) -> ObjectRef:
        """Store content, at the memory of a few chunks however large it is.

        Args:
            source: what to store.
            on_progress: called now and then.

        Raises:
            InvalidMessage: a file can't be read.
            LimitExceeded: too large, or the object store is full; names the limit.
            Unavailable: a chunk could not be stored for a minute.
            OutcomeUnknown: likewise. Whatever ends it, what was stored is removed again, if that can be now.
        """
        total_bytes = await asyncio.to_thread(size_of, source)
        if total_bytes is not None and total_bytes > limits.OBJECT_BYTES_MAX:
            # Said at once, not after all that may be stored has been.
            raise LimitExceeded(
                f"object: {total_bytes} bytes, at most {limits.OBJECT_BYTES_MAX} (OBJECT_BYTES_MAX)"
            )

        def stored(done_bytes: int) -> None:
            if on_progress is not None:
                on_progress(done_bytes, total_bytes)

        writer = ObjectWriter(self._transport.chunks)
        try:
            return await write_chunks(writer, _pieces(source), on_stored=stored)
        except BaseException:
            await bounded(self._undo(writer), DISCARD_S)
            raise

    async def get(
        self, reference: ObjectRef, to: Path | Writable, *, on_progress: OnProgress | None = None
    ) -> None:
        """Copy an object into a file; a named one is replaced only by the whole content.

        Args:
            reference: which.
            to: a file of this machine, or an open binary file.
            on_progress: called for each chunk.

        Raises:
            NotFound: it, or a part of it, is not there.
            InvalidMessage: it is not what the reference says; or the file can't be written.
            Unavailable: a chunk could not be read for a minute.
        """
        if not isinstance(to, Path):
            await self._copy(reference, to, on_progress)
            return
        part: str | None = None
        try:
            handle, part = tempfile.mkstemp(prefix=f".{to.name}-", dir=to.parent)
            with os.fdopen(handle, "wb") as file:
                await self._copy(reference, file, on_progress)
            await asyncio.to_thread(os.replace, part, to)
            part = None
        except OSError as exc:
            raise InvalidMessage(f"file {to}: {exc.strerror or exc}") from exc
        finally:
            if part is not None:
                with suppress(OSError):
                    os.unlink(part)  # noqa: PTH108 - of a name

    def read(self, reference: ObjectRef) -> AsyncGenerator[bytes, None]:
        """Yield an object's content in pieces; close it (`contextlib.aclosing`) if you leave it early.

        Raises:
            ServiceError: as `get`.
        """
        return read_chunks(self._transport.chunks, reference)

    async def drop(self, *ids: str) -> None:
        """Remove objects for good; what could not be removed now goes by its age."""
        await self._transport.drop_objects(ids)

    async def discard(self, *ids: str) -> None:
        """Remove objects on the way out, also where we are being cancelled: soon, or they go by their age."""
        if ids:
            await bounded(self.drop(*ids), DISCARD_S)

    @asynccontextmanager
    async def given_back(self, made: Made) -> AsyncIterator[None]:
        """Remove objects again where the task for which they were made is surely not accepted: whatever ends it inside.

        Args:
            made: they; what is added while inside counts.
        """
        try:
            yield
        except BaseException as exc:
            if not made.is_sent or (isinstance(exc, ServiceError) and exc.definite):
                await self.discard(*made.take())
            raise

    @asynccontextmanager
    async def carried(self, options: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Yield a task's options with what its message would not hold put into the object store; publish it inside.

        The smallest files stay in the message. Under `made` are the objects (`Made`), for whoever drops them when the
        task has its result; if it is surely not accepted, they are dropped here.

        Raises:
            InvalidMessage: there is no such option; nothing was put.
            ServiceError: as `put`.
        """
        check_options(options, RunOptions)
        made = Made()
        async with self.given_back(made):
            yield await self._carry(options, made)

    async def _undo(self, writer: ObjectWriter) -> None:
        await writer.abandon(settle_s=SETTLE_S)
        if writer.has_begun:
            await self.drop(writer.id)

    async def _carry(self, options: Mapping[str, Any], made: Made) -> dict[str, Any]:
        files: Mapping[str, Content] = options.get("files") or {}
        sizes = {path: await asyncio.to_thread(_inline_size, files[path]) for path in files}
        if sum(sizes.values()) <= INLINE_BYTES_MAX:
            return dict(options)
        carried: dict[str, Content] = dict(files)
        room = INLINE_BYTES_MAX
        for path in sorted(files, key=lambda path: sizes[path]):
            content = files[path]
            room -= sizes[path]
            if room < 0 and not isinstance(content, InputFile):
                reference = await self.put(content)
                made.ids.append(reference.id)
                carried[path] = InputFile(path=path, object=reference, mode=mode_of(content))
        return {**options, "files": carried, "made": made}

    async def _copy(
        self, reference: ObjectRef, file: Writable, on_progress: OnProgress | None
    ) -> None:
        done_bytes = 0
        async with aclosing(read_chunks(self._transport.chunks, reference)) as chunks:
            async for chunk in chunks:
                await asyncio.to_thread(file.write, chunk)
                done_bytes += len(chunk)
                if on_progress is not None:
                    on_progress(done_bytes, reference.size_bytes)


def size_of(source: Source) -> int | None:
    """Return how many bytes a source has; None: not known.

    Raises:
        InvalidMessage: a file can't be read.
    """
    if isinstance(source, Path):
        try:
            return source.stat().st_size
        except OSError as exc:
            raise InvalidMessage(f"file {exc.filename}: {exc.strerror or exc}") from exc
    return len(_encoded(source)) if isinstance(source, str | bytes) else None


def mode_of(source: object) -> int:
    """Return the permissions that a file of this machine has, and 0o644 for anything else."""
    return source.stat().st_mode & 0o777 if isinstance(source, Path) else 0o644


def _inline_size(content: Content) -> int:
    """Return the bytes that content takes in a task's message."""
    if isinstance(content, Path):
        size = size_of(content) or 0
        if size > INLINE_BYTES_MAX:
            return size
    return len(msgspec.json.encode(input_file("", content)))


def _encoded(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


async def _pieces(source: Source) -> AsyncIterator[bytes]:
    if isinstance(source, str | bytes):
        content = memoryview(_encoded(source))
        for at in range(0, len(content), PIECE_BYTES):
            yield bytes(content[at : at + PIECE_BYTES])
    elif isinstance(source, AsyncIterator):
        async for piece in source:
            yield piece
    elif isinstance(source, Path):
        try:
            with await asyncio.to_thread(source.open, "rb") as file:
                async for piece in _read(file):
                    yield piece
        except OSError as exc:
            raise InvalidMessage(f"file {source}: {exc.strerror or exc}") from exc
    else:
        async for piece in _read(source):
            yield piece


async def _read(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
        yield piece
