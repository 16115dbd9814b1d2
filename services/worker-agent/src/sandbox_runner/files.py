"""File operations, as generators that the loop advances step by step: a long one holds up nothing else.

Each yields the frames to send, or None to let others go on; WRITE is sent the data. They end by returning what DONE says or
raising FileError. Nothing here trusts that a path still means what it meant one call ago.
"""

import errno
import json
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sandbox_runner import protocol
from sandbox_runner.paths import FileError, Lookup, Place, Workspace, kind_of, translate

Reply = dict[str, Any]
Steps = Generator[bytes | None, bytes | None, Reply]
"""Yields payloads of DATA frames (or None), is sent payloads of DATA frames (None at their end), returns DONE's fields."""

_ENTRIES_A_STEP = 256
_ENTRIES_A_FRAME = 128
REGULAR = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PART_PREFIX = ".sandbox-part-"


@contextmanager
def replacing(place: Place) -> Iterator[int]:
    """Yields the descriptor of a new file, which takes the place in the end as a whole: nobody ever sees half of it."""
    part = PART_PREFIX + os.urandom(8).hex()
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | REGULAR, 0o600, dir_fd=place.folder)
    try:
        yield fd
        os.rename(part, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(part, dir_fd=place.folder)
        raise
    finally:
        os.close(fd)


def write(workspace: Workspace, request: Reply) -> Steps:
    """Replaces a file as a whole, or makes it with the directories above it."""
    path = str(request["path"])
    with workspace.locate(path, Lookup(create=True)) as place:
        try:
            _refuse_directory(path, place)
            with replacing(place) as fd:
                size = 0
                while (data := (yield None)) is not None:
                    size += len(data)
                    write_all(fd, data)
                os.fchmod(fd, int(request.get("mode", 0o644)) & 0o7777)
        except OSError as error:
            raise translate(path, error) from error
    return {"size": size}


def read(workspace: Workspace, request: Reply) -> Steps:
    """Sends a piece of a regular file; anything else (a pipe that would hang, a device) is refused."""
    path = str(request["path"])
    offset = int(request.get("offset", 0))
    limit = request.get("limit")
    with workspace.locate(path) as place:
        try:
            fd = os.open(place.name, os.O_RDONLY | REGULAR, dir_fd=place.folder)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENODEV, errno.ELOOP):
                raise FileError("not_a_file", f"{path}: not a regular file") from error
            raise translate(path, error) from error
    try:
        info = os.fstat(fd)
        if stat.S_ISDIR(info.st_mode):
            raise FileError("is_a_directory", f"{path}: a directory")
        if not stat.S_ISREG(info.st_mode):
            raise FileError("not_a_file", f"{path}: not a regular file")
        end = info.st_size if limit is None else min(info.st_size, offset + int(limit))
        at = offset
        while at < end:
            data = os.pread(fd, min(protocol.CHUNK_BYTES, end - at), at)
            if not data:
                break  # it has become shorter
            at += len(data)
            yield data
        return {"size": info.st_size, **_describe(info)}
    except OSError as error:
        raise translate(path, error) from error
    finally:
        os.close(fd)


def list_directory(workspace: Workspace, request: Reply) -> Steps:
    """Sends the entries of a directory, sorted, at most `limit`; for anything else, the one entry that it is."""
    path = str(request["path"])
    limit = min(int(request.get("limit", protocol.LIST_ENTRIES_MAX)), protocol.LIST_ENTRIES_MAX)
    entry = _entry_at(workspace, path)
    try:
        folder = workspace.open_directory(path)
    except FileError as error:
        if error.code not in ("not_found", "not_a_directory"):
            raise
        yield json.dumps([entry]).encode()
        return {"truncated": False}
    entries: list[Reply] = []
    truncated = False
    try:
        with os.scandir(folder) as found:
            for item in found:
                if len(entries) == limit:
                    truncated = True
                    break
                with suppress(FileNotFoundError):  # gone since
                    entries.append(_entry(item.name, item.stat(follow_symlinks=False)))
                if len(entries) % _ENTRIES_A_STEP == 0:
                    yield None
    except OSError as error:
        raise translate(path, error) from error
    finally:
        os.close(folder)
    entries.sort(key=lambda entry: str(entry["name"]))
    for at in range(0, len(entries), _ENTRIES_A_FRAME):
        yield json.dumps(entries[at : at + _ENTRIES_A_FRAME], separators=(",", ":")).encode()
    return {"truncated": truncated}


def remove(workspace: Workspace, request: Reply) -> Steps:
    """Removes a file, a symbolic link (not what it points to), or a directory, with what is in it if `recursive`."""
    path = str(request["path"])
    with workspace.locate(path, Lookup(follow=False)) as place:
        if place.name == ".":
            raise FileError("permission_denied", f"{path}: the workspace itself can't be removed")
        try:
            info = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            if not stat.S_ISDIR(info.st_mode):
                os.unlink(place.name, dir_fd=place.folder)
            else:
                if request.get("recursive"):
                    yield from _empty(place)
                os.rmdir(place.name, dir_fd=place.folder)
        except OSError as error:
            raise translate(path, error) from error
    return {}


def _empty(place: Place) -> Generator[None, bytes | None, None]:
    """Empties a directory, however deep, with two descriptors: what is below a subdirectory is moved up beside it."""
    top = _open_own(place)
    moved = 0
    try:
        while names := _some_names(top):
            for name in names:
                if _remove_shallow(top, name):
                    continue
                below = _open_own(Place(top, name))
                try:
                    while inner_names := _some_names(below):
                        for inner in inner_names:
                            if not _remove_shallow(below, inner):
                                moved += 1
                                target = f"{PART_PREFIX}{os.urandom(4).hex()}-{moved}"
                                os.rename(inner, target, src_dir_fd=below, dst_dir_fd=top)
                        yield None
                finally:
                    os.close(below)
            yield None
    finally:
        os.close(top)


def _open_own(place: Place) -> int:
    """Opens a directory to empty it, also when its owner took his own rights away."""
    try:
        folder = os.open(place.name, DIRECTORY, dir_fd=place.folder)
    except PermissionError:
        os.chmod(place.name, 0o700, dir_fd=place.folder)
        folder = os.open(place.name, DIRECTORY, dir_fd=place.folder)
    if os.fstat(folder).st_mode & 0o700 != 0o700:
        os.fchmod(folder, 0o700)
    return folder


def _some_names(folder: int) -> list[str]:
    names = []
    with os.scandir(folder) as found:
        for item in found:
            names.append(item.name)
            if len(names) == _ENTRIES_A_STEP:
                break
    return names


def _remove_shallow(folder: int, name: str) -> bool:
    """Removes anything but a directory that holds something; returns whether it's gone."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except (IsADirectoryError, PermissionError):
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
    return True


def write_all(fd: int, data: bytes) -> None:
    """Writes all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _refuse_directory(path: str, place: Place) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode):
            raise FileError("is_a_directory", f"{path}: a directory")


def _entry_at(workspace: Workspace, path: str) -> Reply:
    with workspace.locate(path, Lookup(follow=False)) as place:
        try:
            return _entry(
                place.name, os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            )
        except OSError as error:
            raise translate(path, error) from error


def _describe(info: os.stat_result) -> Reply:
    return {"mode": stat.S_IMODE(info.st_mode), "mtime_ms": info.st_mtime_ns // 1_000_000}


def _entry(name: str, info: os.stat_result) -> Reply:
    shown = os.fsencode(name).decode(
        "utf-8", "backslashreplace"
    )  # a name may be any bytes; JSON may not
    return {"name": shown, "type": kind_of(info.st_mode), "size": info.st_size, **_describe(info)}
