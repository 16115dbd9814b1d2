"""Whole directories out of the workspace, as tar streams, at the memory of a few frames. The way back is `unpack`."""

import os
import stat
from collections.abc import Generator
from typing import Any, NamedTuple

from sandbox_runner import protocol
from sandbox_runner.files import DIRECTORY, PART_PREFIX, REGULAR, Reply, Steps
from sandbox_runner.paths import FileError, Place, Workspace, translate

BLOCK = 512
DEPTH_MAX = 256
"""Directories below one another: one descriptor each."""
LINKS_MAX = 100_000
"""Files of several names that are known again by their first; further ones are stored once more."""
_ENTRIES_A_STEP = 256
_SIGN_OF_LIFE = 32_768
_END = bytes(2 * BLOCK)


class _Found(NamedTuple):
    """Something below the directory that is archived: its place, its name in the archive, and what it is."""

    place: Place
    name: str
    info: os.stat_result


def archive(workspace: Workspace, request: Reply) -> Steps:
    """Sends a directory, or one file, as a tar archive (pax); with `measure` says only how large it would be.

    Sockets, pipes and devices are left out, and what is mounted below. A file that becomes shorter meanwhile fails it.
    """
    writer = _Writer(str(request["path"]), measure=bool(request.get("measure")))
    for number, found in enumerate(_walk(workspace, writer.path)):
        if found is not None:
            yield from writer.add(found)
        if found is None or number % _ENTRIES_A_STEP == 0:
            # Whoever only measures sends nothing else: that it lives must be seen.
            yield b"" if writer.measures and writer.entries % _SIGN_OF_LIFE == 0 else None
    yield from writer.finish()
    return {"size": writer.size, "entries": writer.entries}


class _Writer:
    """Turns what is found into the bytes of an archive."""

    def __init__(self, path: str, *, measure: bool) -> None:
        import tarfile  # noqa: PLC0415 - no idle sandbox pays for it

        self.path = path
        self.measures = measure
        self.size = 0
        self.entries = 0
        self._tar = tarfile
        self._buffer = bytearray()
        self._seen: dict[tuple[int, int], str] = {}

    def add(self, found: _Found) -> Generator[bytes | None, bytes | None, None]:
        """Yields the frames of one member."""
        head = self._tar.TarInfo(found.name)
        head.mode = stat.S_IMODE(found.info.st_mode) & 0o777
        head.mtime = int(found.info.st_mtime)
        if stat.S_ISDIR(found.info.st_mode):
            head.type = self._tar.DIRTYPE
        elif stat.S_ISLNK(found.info.st_mode):
            head.type = self._tar.SYMTYPE
            head.linkname = os.readlink(found.place.name, dir_fd=found.place.folder)
        elif (first := self._first_name(found)) is not None:
            head.type, head.linkname = self._tar.LNKTYPE, first
        else:
            yield from self._add_file(found, head)
            return
        yield from self._put(self._header(head))

    def finish(self) -> Generator[bytes | None, bytes | None, None]:
        """Yields what is left, and the archive's end."""
        yield from self._put(_END)
        if self._buffer:
            yield bytes(self._buffer)

    def _first_name(self, found: _Found) -> str | None:
        if found.info.st_nlink < 2:
            return None
        key = (found.info.st_dev, found.info.st_ino)
        if key not in self._seen and len(self._seen) < LINKS_MAX:
            self._seen[key] = found.name
            return None
        return self._seen.get(key)

    def _add_file(self, found: _Found, head: Any) -> Generator[bytes | None, bytes | None, None]:
        if self.measures:
            head.size = found.info.st_size
            yield from self._put(self._header(head))
            self.size += padded(head.size)
            return
        fd = os.open(found.place.name, os.O_RDONLY | REGULAR, dir_fd=found.place.folder)
        try:
            head.size = os.fstat(fd).st_size
            yield from self._put(self._header(head))
            at = 0
            while at < head.size:
                data = os.pread(fd, min(protocol.CHUNK_BYTES, head.size - at), at)
                if not data:
                    raise FileError("changed", f"{found.name}: it became shorter while it was read")
                at += len(data)
                yield from self._put(data)
            yield from self._put(bytes(padded(head.size) - head.size))
        finally:
            os.close(fd)

    def _header(self, head: Any) -> bytes:
        self.entries += 1
        made: bytes = head.tobuf(self._tar.PAX_FORMAT, "utf-8", "surrogateescape")
        return made

    def _put(self, data: bytes) -> Generator[bytes | None, bytes | None, None]:
        self.size += len(data)
        if self.measures:
            return
        self._buffer += data
        while len(self._buffer) >= protocol.CHUNK_BYTES:
            frame = bytes(self._buffer[: protocol.CHUNK_BYTES])
            del self._buffer[: protocol.CHUNK_BYTES]
            yield frame


def _walk(workspace: Workspace, path: str) -> Generator[_Found | None, None, None]:
    """Yields what lies at and below a path, directories before what is in them; None to let others go on."""
    with workspace.locate(path) as place:
        try:
            info = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            if not stat.S_ISDIR(info.st_mode):
                if not stat.S_ISREG(info.st_mode):
                    raise FileError("not_a_file", f"{path}: neither a directory nor a regular file")
                yield _Found(place, place.name, info)
                return
            yield from _walk_below(place, info.st_dev)
        except OSError as error:
            raise translate(path, error) from error


def _walk_below(top: Place, device: int) -> Generator[_Found | None, None, None]:
    stack: list[tuple[int, str, Any]] = []
    try:
        _descend(stack, top, "")
        while stack:
            folder, prefix, entries = stack[-1]
            entry = next(entries, None)
            if entry is None:
                stack.pop()
                entries.close()
                os.close(folder)
                yield None
                continue
            if entry.name.startswith(PART_PREFIX):
                continue
            try:
                info = entry.stat(follow_symlinks=False)
                found = _Found(Place(folder, entry.name), prefix + entry.name, info)
                if stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
                    yield found
                elif stat.S_ISDIR(info.st_mode) and info.st_dev == device:
                    yield found
                    _descend(stack, found.place, found.name + "/")
            except FileNotFoundError:
                continue  # gone since
            except OSError as error:
                raise translate(prefix + entry.name, error) from error
    finally:
        for folder, _, entries in stack:
            entries.close()
            os.close(folder)


def _descend(stack: list[tuple[int, str, Any]], place: Place, prefix: str) -> None:
    if len(stack) == DEPTH_MAX:
        raise FileError("limit_exceeded", f"{prefix}: more than {DEPTH_MAX} directories deep")
    folder = os.open(place.name, DIRECTORY, dir_fd=place.folder)
    stack.append((folder, prefix, os.scandir(folder)))


def padded(size: int) -> int:
    """Rounds up to whole blocks."""
    return -(-size // BLOCK) * BLOCK
