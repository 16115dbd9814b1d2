"""Tar archives into folders of this machine, taken apart on a thread as their pieces come, at bounded memory.

What comes out of a sandbox may have been made by hostile code. It is written into a new folder, files first and links last,
so that nothing is ever written through a link; a link that leads out of the folder is left out.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tarfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from agent_sandbox.archives import PIECE_BYTES, Pipe
from shared import limits
from shared.errors import InvalidMessage, LimitExceeded

HEADER_BYTES_MAX = 1 << 20
"""What stands before a member to say more of it: long names."""
LEFT_OUT_SHOWN = 100
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Unpacked(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an archive."""

    entries: int
    """Files, directories and links that were written."""
    size_bytes: int
    """Of all files together."""
    left_out: tuple[str, ...] = ()
    """Links that lead out of the folder, and what is neither file, directory nor link; the first hundred."""


async def unpack(pieces: AsyncIterator[bytes], folder: Path) -> Unpacked:
    """Write an archive into a folder that is not there yet, or is empty: the whole of it, or nothing.

    Raises:
        InvalidMessage: the folder holds something or can't be written; or this is no archive, or a hostile one.
        LimitExceeded: more than `limits.ARCHIVE_ENTRIES_MAX` entries.
    """
    pipe = Pipe()
    work = asyncio.ensure_future(asyncio.to_thread(_read, pipe, folder))
    try:
        async for piece in pieces:
            await _hand_over(pipe, piece, work)
            if work.done():
                return await work
        await _hand_over(pipe, b"", work)
        return await work
    finally:
        pipe.close()
        if not work.done():
            await _hand_over(pipe, b"", work)
            await asyncio.wait({work})


async def _hand_over(pipe: Pipe, piece: bytes, work: asyncio.Future[Unpacked]) -> None:
    """Hand a piece over, unless nobody takes any more."""
    putting = asyncio.ensure_future(pipe.put(piece))
    waits: set[asyncio.Future[Any]] = {putting, work}
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    putting.cancel()


class _Head(tarfile.TarInfo):
    """A member's header; one that would fill our memory is refused before it is read."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        extended = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
        long_names = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
        if self.type in (*extended, *long_names) and self.size > HEADER_BYTES_MAX:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]  # meant to be overridden, says its module


def _read(pipe: Pipe, folder: Path) -> Unpacked:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InvalidMessage(f"folder {folder}: it is not empty")
        try:
            return _read_into(pipe, folder)
        except BaseException:
            for entry in folder.iterdir():  # all of it is ours
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink(missing_ok=True)
            raise
    except (tarfile.TarError, ValueError, EOFError) as exc:
        raise InvalidMessage(f"archive: {exc}") from exc
    except OSError as exc:
        raise InvalidMessage(f"file {exc.filename or folder}: {exc.strerror or exc}") from exc


def _read_into(pipe: Pipe, folder: Path) -> Unpacked:
    with tarfile.open(
        fileobj=cast("IO[bytes]", pipe),
        mode="r|",
        bufsize=PIECE_BYTES,
        tarinfo=_Head,
        encoding="utf-8",
        errors="surrogateescape",
    ) as archive:
        return _Unpacking(folder).run(archive)


class _Unpacking:
    """One archive on its way into a folder that holds nothing else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hard: list[tuple[str, str]] = []
        self._symbolic: list[tuple[str, str]] = []
        self._left_out: list[str] = []
        self._entries = 0
        self._size_bytes = 0

    def run(self, archive: tarfile.TarFile) -> Unpacked:
        """Write all of it."""
        while (member := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # else it would remember them all
            if self._entries >= limits.ARCHIVE_ENTRIES_MAX:
                raise LimitExceeded(
                    f"archive: more than {limits.ARCHIVE_ENTRIES_MAX} members (ARCHIVE_ENTRIES_MAX)"
                )
            self._entries += 1
            self._member(archive, member)
        # Hard links while there is no other kind that they could be of, or pass through.
        for name, target in self._hard:
            os.link(self._folder / target, self._place(name), follow_symlinks=False)
        for name, target in self._symbolic:
            if stays_inside(name, target):
                self._place(name).symlink_to(target)
            else:
                self._leave_out(name)
        return Unpacked(
            entries=self._entries, size_bytes=self._size_bytes, left_out=tuple(self._left_out)
        )

    def _member(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        name = _inside(member.name)
        path = self._folder / name
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
        elif member.issym():
            self._symbolic.append((name, member.linkname))
        elif member.islnk():
            self._hard.append((name, _inside(member.linkname)))
        elif member.isreg() and not member.issparse():
            path.parent.mkdir(parents=True, exist_ok=True)
            content = archive.extractfile(member)
            assert content is not None, "a regular file has content"
            with os.fdopen(os.open(path, _NEW_FILE, 0o600), "wb") as file:
                while piece := content.read(PIECE_BYTES):
                    file.write(piece)
                    self._size_bytes += len(piece)
                os.fchmod(file.fileno(), member.mode & 0o777 | 0o600)
            with suppress(OSError, OverflowError):
                os.utime(path, (member.mtime, member.mtime))
        else:
            self._leave_out(name)

    def _place(self, name: str) -> Path:
        """Return where a link goes: into a real directory, else it would not stand where its name says."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        above = path.parent
        while above != self._folder:
            if above.is_symlink():
                raise InvalidMessage(f"archive: {name[:200]!r} would be written through a link")
            above = above.parent
        return path

    def _leave_out(self, name: str) -> None:
        self._entries -= 1
        if len(self._left_out) < LEFT_OUT_SHOWN:
            self._left_out.append(name)


def _inside(name: str) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise InvalidMessage(f"archive: {name[:200]!r} would be written outside of its folder")
    return "/".join(parts)


def stays_inside(name: str, target: str) -> bool:
    """Return whether a symbolic link leads nowhere but into its tree, whatever other links of this kind are there.

    Only up from where it stands, which is a real directory, and then down by names: each of them is a real directory,
    or a link of which the same holds. A `..` behind a name could go up from where a link has led.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    climbs = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    depth = len(name.split("/")) - 1
    return not target.startswith("/") and climbs <= depth and ".." not in parts[climbs:]
