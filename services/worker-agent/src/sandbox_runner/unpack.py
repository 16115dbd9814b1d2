"""Tar streams into the workspace, member by member as their bytes come. Nothing in an archive is believed.

`tarfile` reads the headers; what it has beyond that pulls from a file, while frames are pushed to us. Names go the way of
every other path (`sandbox_runner.paths`), so that no member can leave the workspace, nor through a link of the archive's own.
"""

import os
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

from sandbox_runner import protocol
from sandbox_runner.files import DIRECTORY, PART_PREFIX, Reply, Steps, replacing, write_all
from sandbox_runner.pack import BLOCK, padded
from sandbox_runner.paths import FileError, Lookup, Workspace, translate

EXTENDED_BYTES_MAX = 1 << 20
"""What stands before a member to say more of it: long names."""
_EXTENDED = (b"x", b"X", b"g", b"L", b"K")
_FILES = (b"0", b"\0", b"7")
_TIME_S_MAX = 1 << 33


def extract(workspace: Workspace, request: Reply) -> Steps:
    """Writes a tar archive's members below a directory, which is made; what has their names is replaced, the rest stays.

    Files, directories, symbolic and hard links; anything else, a name that leads out and an archive that breaks off fail
    it. What came before that stays. Owners and set-id bits are not taken over, directories stay their owner's to write.
    """
    reader = _Reader(workspace, str(request["path"]), int(request["entries_max"]))
    yield from reader.run()
    while (yield None) is not None:
        pass  # padding behind the archive's end
    return {"size": reader.taken, "entries": reader.entries}


class _Reader:
    """Takes an archive apart as its bytes come."""

    def __init__(self, workspace: Workspace, path: str, entries_max: int) -> None:
        import tarfile  # noqa: PLC0415 - no idle sandbox pays for it

        self.entries = 0
        self.taken = 0
        self._tar = tarfile
        self._workspace = workspace
        self._base = path.rstrip("/") or path
        self._entries_max = entries_max
        self._buffer = bytearray()
        self._said: dict[str, str] = {}

    def run(self) -> Steps:
        """Reads to the archive's end."""
        self._make_directory(self._base, 0o755)
        while any(block := (yield from self._take(BLOCK))):
            try:
                head = self._tar.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except self._tar.TarError as error:
                raise FileError("invalid_archive", f"no tar archive: {error}") from error
            if head.type in _EXTENDED:
                yield from self._extended(head)
                continue
            yield from self._member(head)
            self._said = {}
        return {}

    def _take(self, count: int) -> Generator[None, bytes | None, bytes]:
        while len(self._buffer) < count:
            data = yield None
            if data is None:
                raise FileError("invalid_archive", f"it breaks off after {self.taken} bytes")
            self._buffer += data
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        self.taken += count
        return taken

    def _extended(self, head: Any) -> Generator[None, bytes | None, None]:
        if not 0 <= head.size <= EXTENDED_BYTES_MAX:
            raise FileError("invalid_archive", f"a header of {head.size} bytes")
        body = (yield from self._take(padded(head.size)))[: head.size]
        if head.type in (b"x", b"X"):
            self._said |= _pax_records(body)
        elif head.type != b"g":  # what a global one says (a commit, a comment) is of no member
            key = "path" if head.type == b"L" else "linkpath"
            self._said[key] = body.rstrip(b"\0").decode("utf-8", "surrogateescape")

    def _member(self, head: Any) -> Generator[None, bytes | None, None]:
        self.entries += 1
        if self.entries > self._entries_max:
            raise FileError("limit_exceeded", f"more than {self._entries_max} members")
        if any(name.startswith("GNU.sparse") for name in self._said):
            raise FileError("invalid_archive", f"{head.name}: a sparse file")
        size = _number(self._said.get("size"), head.size)
        name = self._inside(self._said.get("path", head.name))
        link = self._said.get("linkpath", head.linkname)
        if "\0" in link:
            raise FileError("invalid_archive", f"{name}: a link to no name")
        mode = head.mode & 0o777
        if head.type in _FILES and not self._said.get("path", head.name).endswith("/"):
            yield from self._file(name, mode, size, _number(self._said.get("mtime"), head.mtime))
        elif head.type in (b"5", *_FILES):
            self._make_directory(name, mode)
        elif head.type == b"2":
            self._put(name, lambda folder, part: os.symlink(link, part, dir_fd=folder))
        elif head.type == b"1":
            self._hard_link(name, self._inside(link))
        else:
            raise FileError("invalid_archive", f"{name}: neither file, directory nor link")

    def _inside(self, name: str) -> str:
        """Returns the path in the workspace of a member's name, which may not climb or be absolute."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts:
            raise FileError("outside_workspace", f"{name[:200]}: outside of where it is put")
        return "/".join([self._base, *parts])

    def _file(
        self, name: str, mode: int, size: int, mtime_s: int
    ) -> Generator[None, bytes | None, None]:
        with self._workspace.locate(name, Lookup(follow=False, create=True)) as place:
            try:
                with replacing(place) as fd:
                    left = size
                    while left:
                        data = yield from self._take(min(left, protocol.CHUNK_BYTES))
                        write_all(fd, data)
                        left -= len(data)
                    yield from self._take(padded(size) - size)
                    os.fchmod(fd, mode)
                    os.utime(fd, (min(mtime_s, _TIME_S_MAX), min(mtime_s, _TIME_S_MAX)))
            except OSError as error:
                raise translate(name, error) from error

    def _put(self, name: str, make: Callable[[int, str], None]) -> None:
        """Makes something under a name of its own and puts it in place at once."""
        with self._workspace.locate(name, Lookup(follow=False, create=True)) as place:
            part = PART_PREFIX + os.urandom(8).hex()
            try:
                make(place.folder, part)
                try:
                    os.rename(part, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
                finally:  # still there where it was refused, or where both are one file
                    with suppress(OSError):
                        os.unlink(part, dir_fd=place.folder)
            except OSError as error:
                raise translate(name, error) from error

    def _hard_link(self, name: str, target: str) -> None:
        with self._workspace.locate(target, Lookup(follow=False)) as first:
            self._put(
                name,
                lambda folder, part: os.link(
                    first.name,
                    part,
                    src_dir_fd=first.folder,
                    dst_dir_fd=folder,
                    follow_symlinks=False,
                ),
            )

    def _make_directory(self, name: str, mode: int) -> None:
        with self._workspace.locate(name, Lookup(create=True)) as place:
            try:
                with suppress(FileExistsError):
                    os.mkdir(place.name, dir_fd=place.folder)
                folder = os.open(place.name, DIRECTORY, dir_fd=place.folder)
                try:
                    if name != self._base:
                        os.fchmod(folder, mode | 0o700)
                finally:
                    os.close(folder)
            except OSError as error:
                raise translate(name, error) from error


def _pax_records(body: bytes) -> dict[str, str]:
    """Reads `length key=value` lines."""
    records: dict[str, str] = {}
    while body:
        length, _, _ = body.partition(b" ")
        if not length.isdigit() or not 5 <= int(length) <= len(body):
            raise FileError("invalid_archive", "a pax header can't be read")
        line, body = body[: int(length)], body[int(length) :]
        key, _, value = line[len(length) + 1 : -1].partition(b"=")
        records[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
    return records


def _number(text: str | None, otherwise: int) -> int:
    if text is None:
        return max(0, int(otherwise))
    whole = text.partition(".")[0]
    if not whole.isascii() or not whole.isdigit() or len(whole) > 18:
        raise FileError("invalid_archive", f"{text[:40]!r} is no number of a header")
    return int(whole)
