"""Folders of this machine as tar archives, written on a thread, piece by piece, at bounded memory. Back: `unpacking`."""

from __future__ import annotations

import asyncio
import os
import stat
import tarfile
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from shared import limits
from shared.errors import InvalidMessage, LimitExceeded

PIECE_BYTES = 256 * 1024
PIECES = 4
"""On their way between the thread and the loop."""


class Pipe:
    """A bounded way between a thread, which sees a file, and a coroutine."""

    def __init__(self) -> None:
        """Be called in the coroutine's loop."""
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(PIECES)
        self._rest = b""
        self._at_end = False
        self._is_closed = False

    def write(self, data: bytes) -> int:
        """Thread: hand data over, when there is room."""
        if self._is_closed:
            raise BrokenPipeError("given up")
        asyncio.run_coroutine_threadsafe(self._queue.put(bytes(data)), self._loop).result()
        return len(data)

    def read(self, count: int) -> bytes:
        """Thread: wait for data; empty at its end."""
        if not self._rest and not self._at_end:
            self._rest = asyncio.run_coroutine_threadsafe(self._queue.get(), self._loop).result()
            self._at_end = not self._rest
        if self._is_closed:
            raise BrokenPipeError("given up")
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken

    async def get(self) -> bytes:
        """Coroutine: the next piece; empty: the end."""
        return await self._queue.get()

    async def put(self, piece: bytes) -> None:
        """Coroutine: hand a piece over; empty: the end."""
        await self._queue.put(piece)

    def close(self) -> None:
        """Coroutine: give it up; the thread meets an error when it comes to it next."""
        self._is_closed = True
        while not self._queue.empty():
            self._queue.get_nowait()


def measure(folder: Path) -> int:
    """Return how large a folder's archive is, bytes.

    Raises:
        InvalidMessage: something in it can't be read.
        LimitExceeded: more than `limits.ARCHIVE_ENTRIES_MAX` entries, or larger than an object may be.
    """
    size = 2 * tarfile.BLOCKSIZE
    for number, (head, _) in enumerate(_found(folder)):
        size += len(head.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))
        size += -(-head.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        if number >= limits.ARCHIVE_ENTRIES_MAX:
            raise LimitExceeded(
                f"{folder}: more than {limits.ARCHIVE_ENTRIES_MAX} entries (ARCHIVE_ENTRIES_MAX)"
            )
    if size > limits.OBJECT_BYTES_MAX:
        raise LimitExceeded(
            f"{folder}: {size} bytes, at most {limits.OBJECT_BYTES_MAX} (OBJECT_BYTES_MAX)"
        )
    return size


async def pack(folder: Path) -> AsyncGenerator[bytes, None]:
    """Yield a folder's archive in pieces. Links are stored as links; sockets, pipes and devices are left out.

    Raises:
        InvalidMessage: something in it can't be read.
    """
    pipe = Pipe()
    work = asyncio.ensure_future(asyncio.to_thread(_write, folder, pipe))
    try:
        while piece := await pipe.get():
            yield piece
        await work
    finally:
        pipe.close()
        work.cancel()
        await asyncio.wait({work})


def _write(folder: Path, pipe: Pipe) -> None:
    try:
        with tarfile.open(
            fileobj=cast("IO[bytes]", pipe),
            mode="w|",
            format=tarfile.PAX_FORMAT,
            bufsize=PIECE_BYTES,
            encoding="utf-8",
            errors="surrogateescape",
        ) as archive:
            for head, path in _found(folder):
                _add(archive, head, path)
                archive.members = []  # type: ignore[attr-defined]  # else it would remember them all
    except (BrokenPipeError, CancelledError):
        return
    finally:
        with suppress(BrokenPipeError, CancelledError, RuntimeError):  # nobody reads any more
            pipe.write(b"")


def _add(archive: tarfile.TarFile, head: tarfile.TarInfo, path: Path) -> None:
    if not head.isreg():
        archive.addfile(head)
        return
    try:
        with path.open("rb") as file:
            head.size = os.fstat(file.fileno()).st_size
            archive.addfile(head, file)
    except OSError as exc:
        if isinstance(exc, BrokenPipeError):
            raise
        raise InvalidMessage(f"file {path}: {exc.strerror or exc}") from exc


def _found(folder: Path) -> Iterator[tuple[tarfile.TarInfo, Path]]:
    """Yield what is in a folder, directories before what is in them, by name."""
    waiting = [(folder, "")]
    while waiting:
        place, prefix = waiting.pop()
        try:
            with os.scandir(place) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
                infos = [(entry.name, entry.stat(follow_symlinks=False)) for entry in found]
            for name, info in infos:
                path = place / name
                head = tarfile.TarInfo(prefix + name)
                head.mode, head.mtime = stat.S_IMODE(info.st_mode) & 0o777, int(info.st_mtime)
                if stat.S_ISDIR(info.st_mode):
                    head.type = tarfile.DIRTYPE
                    waiting.append((path, f"{prefix}{name}/"))
                elif stat.S_ISLNK(info.st_mode):
                    head.type, head.linkname = tarfile.SYMTYPE, os.readlink(path)  # noqa: PTH115 - any bytes
                elif stat.S_ISREG(info.st_mode):
                    head.size = info.st_size
                else:
                    continue
                yield head, path
        except OSError as exc:
            raise InvalidMessage(f"file {exc.filename or place}: {exc.strerror or exc}") from exc
