"""Packs as files of a local folder, also one that nodes share over a network.

A pack is written beside its place, synced, and put there by a hard link: it is there whole or not at all, and a link does
not replace what is there.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from checkpointer.adapters.stores import marks, names
from checkpointer.core.keys import parse_key, parse_prefix
from checkpointer.ports.blobs import StoredPack
from shared.errors import (
    AlreadyDone,
    InvalidMessage,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    ServiceError,
    Unavailable,
)

PACK_BYTES = 16 * 1024 * 1024
CALL_S = 30.0
"""Longest a call takes; a disk that hangs (a network's) holds its thread, not its caller."""
THREADS = 8
LIST_AT_ONCE = 512
_TRIES = ".tries"
"""Folder of what is being written."""
TRIES_KEPT_S = 24 * 3600
"""What lies there for longer was left by one that died."""
LINK_TRIES = 3
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
T = TypeVar("T")


class LocalStore:
    """A store in a folder."""

    pack_bytes = PACK_BYTES

    def __init__(self, root: Path, store_id: str) -> None:
        """Use `LocalStore.open`."""
        self.id = store_id
        self._root = root
        self._threads = ThreadPoolExecutor(THREADS, "local-store")
        self._closing = threading.Event()

    @classmethod
    async def open(cls, root: Path, cluster: str) -> LocalStore:
        """Open the store in a folder, which is made where it is not there; mark it as a cluster's, where it is nobody's.

        Args:
            root: the folder.
            cluster: whose it must be, or becomes; empty: whoever's, and nothing is made.

        Raises:
            Rejected: it is another cluster's.
            NotFound: there is none, and none is to be made.
            Unavailable: the folder cannot be used.
        """
        store = cls(root, "")
        try:
            store.id = await store._call(
                f"open local:{root}", lambda: _open(root, cluster), unknown=Unavailable
            )
        except BaseException:
            await store.close()
            raise
        return store

    def new_key(self, tenant: str, session: str) -> str:
        """Return a new key; see `BlobStore`."""
        return names.new_key(tenant, session)

    async def put(self, key: str, data: bytes) -> None:
        """Store a pack; see `BlobStore`."""
        place = self._path(key)
        await self._call(f"put {key}", lambda: self._put(place, data), unknown=OutcomeUnknown)

    async def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Return a pack's bytes; see `BlobStore`."""
        place = self._path(key)

        def read() -> bytes:
            with self._believing_absence():
                return _read(place, start, length)

        return await self._call(f"get {key}", read, unknown=Unavailable)

    async def size(self, key: str) -> int:
        """Return a pack's size; see `BlobStore`."""
        place = self._path(key)

        def look() -> int:
            with self._believing_absence():
                return place.stat().st_size

        return await self._call(f"size {key}", look, unknown=Unavailable)

    async def list(self, prefix: str = "") -> AsyncIterator[StoredPack]:
        """Yield all packs; see `BlobStore`."""
        found = self._walk(*parse_prefix(prefix))
        what = f"list {prefix or 'all'}"
        while True:
            some = await self._call(
                what, lambda: list(islice(found, LIST_AT_ONCE)), unknown=Unavailable
            )
            if not some:
                await self._call(what, self._check_mark, unknown=Unavailable)
                return
            for pack in some:
                yield pack

    async def delete(self, key: str) -> None:
        """Remove a pack; see `BlobStore`."""
        place = self._path(key)

        def delete() -> None:
            self._check_mark()
            _delete(place)

        await self._call(f"delete {key}", delete, unknown=OutcomeUnknown)

    async def close(self) -> None:
        """Let threads end."""
        self._closing.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _path(self, key: str) -> Path:
        parsed = parse_key(key)
        return self._root / parsed.tenant / parsed.session / parsed.name

    async def _call(self, what: str, work: Callable[[], T], *, unknown: type[ServiceError]) -> T:
        try:
            async with asyncio.timeout(CALL_S):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError as exc:
            raise unknown(f"{what}: the disk does not answer for {CALL_S:.0f} s") from exc
        except FileNotFoundError as exc:
            missing = "pack" if self.id else "store"
            raise NotFound(f"{what}: there is no such {missing}") from exc
        except OSError as exc:
            text = f"{what}: {exc.strerror or exc}"
            raise (LimitExceeded if exc.errno in _FULL else Unavailable)(text) from exc

    @contextmanager
    def _believing_absence(self) -> Iterator[None]:
        """What is not there is missing only if the store itself is there, not an empty mount point in its place."""
        try:
            yield
        except FileNotFoundError:
            self._check_mark()
            raise

    def _check_mark(self) -> None:
        """Make sure that the folder is still the store that was opened.

        Raises:
            Unavailable: it is gone, or another one is in its place.
        """
        try:
            found = _marked(self._root, "")
        except (FileNotFoundError, InvalidMessage) as exc:
            raise Unavailable(f"local:{self._root}: the store is not there any more") from exc
        if found != self.id:
            raise Unavailable(f"local:{self._root}: another store is there, {found}")

    def _put(self, place: Path, data: bytes) -> None:
        self._check_mark()
        attempt = self._root / _TRIES / uuid4().hex
        try:
            with attempt.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                _link(attempt, place)
            except FileExistsError as exc:
                raise AlreadyDone(f"put {place.name}: there is a pack of that name") from exc
        finally:
            attempt.unlink(missing_ok=True)
        try:
            for folder in (place.parent, place.parent.parent, self._root):
                _sync(folder)
        except OSError as exc:
            raise OutcomeUnknown(f"put {place.name}: stored, but not synced: {exc}") from exc

    def _walk(self, tenant: str, session: str) -> Iterator[StoredPack]:
        for tenant_folder in _folders(self._root, tenant):
            for session_folder in _folders(tenant_folder, session):
                for path in _entries(session_folder):
                    key = f"{tenant_folder.name}/{session_folder.name}/{path.name}"
                    if self._closing.is_set():
                        raise Unavailable(f"list of {self._root}: the store is closed")
                    try:
                        parse_key(key)
                        found = path.stat()
                    except (InvalidMessage, FileNotFoundError):
                        continue  # somebody else's file; a pack that goes just now
                    yield StoredPack(key, found.st_size, found.st_mtime_ns // 1_000_000)


def _open(root: Path, cluster: str) -> str:
    if not cluster:
        return _marked(root, cluster)
    tries = root / _TRIES
    tries.mkdir(parents=True, exist_ok=True)
    named = root / marks.NAME
    fresh = tries / uuid4().hex
    fresh.write_bytes(marks.write(marks.fresh("local", cluster)))
    try:
        os.link(fresh, named)
        _sync(root)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    for left in _entries(tries):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > TRIES_KEPT_S:
                left.unlink()
    return _marked(root, cluster)


def _marked(root: Path, cluster: str) -> str:
    return marks.read((root / marks.NAME).read_bytes(), f"local:{root}", cluster).id


def _link(attempt: Path, place: Path) -> None:
    for _ in range(LINK_TRIES):
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(attempt, place)
        except FileNotFoundError:  # whoever removed the last pack took the empty folder along
            continue
        return
    raise Unavailable(f"put {place.name}: its folder goes again and again")


def _read(place: Path, start: int, length: int | None) -> bytes:
    with place.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        end = size if length is None else min(size, start + length)
        if start > size:
            raise InvalidMessage(f"get {place.name}: it has {size} bytes, asked from {start}")
        parts = []
        while start < end:
            part = os.pread(file.fileno(), end - start, start)
            if not part:
                raise InvalidMessage(f"get {place.name}: cut off at {start} of {end} bytes")
            parts.append(part)
            start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _delete(place: Path) -> None:
    place.unlink(missing_ok=True)
    for folder in (place.parent, place.parent.parent):
        try:
            folder.rmdir()
        except OSError:  # not empty, or gone already
            return


def _folders(parent: Path, name: str) -> list[Path]:
    found = [parent / name] if name else _entries(parent)
    return [path for path in found if path.is_dir() and not path.name.startswith(".")]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:  # its last pack went just now
        return []


def _sync(folder: Path) -> None:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:  # its packs have been removed since
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
