"""From a path that somebody else wrote to one place below the workspace, whatever user code does to the directories meanwhile.

Each component is opened relative to the one before and never followed by the kernel: symbolic links are resolved here, so that
one which leads out of the workspace is refused by its name. (openat2 with RESOLVE_BENEATH would also refuse absolute links
that stay inside, and older sandboxes lack it.)
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

LENGTH_MAX = 4096
_STEPS_MAX = 1024
_LINKS_MAX = 40
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileError(Exception):
    """A file operation was refused or failed; the message names the path."""

    def __init__(self, code: str, message: str) -> None:
        """Keeps what FAILED reports."""
        super().__init__(message)
        self.code = code
        self.message = message


class Place(NamedTuple):
    """A name in an open directory; the name is "." for the workspace itself."""

    folder: int
    name: str


class Lookup(NamedTuple):
    """How to look a path up."""

    follow: bool = True
    """Resolve a symbolic link at the very end too."""
    create: bool = False
    """Make the directories that miss on the way."""


_CODES = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_a_directory",
    errno.EISDIR: "is_a_directory",
    errno.ENOTEMPTY: "not_empty",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EFBIG: "too_large",
    errno.ENAMETOOLONG: "invalid_path",
    errno.EEXIST: "exists",
}


def translate(path: str, error: OSError) -> FileError:
    """Makes a system's error one of ours, naming the path that the client gave."""
    number = error.errno or errno.EIO
    return FileError(_CODES.get(number, "io_error"), f"{path}: {os.strerror(number)}")


class Workspace:
    """The directory that all paths are relative to."""

    def __init__(self, path: str, *, later: bool = False) -> None:
        """Opens it.

        Args:
            path: Its absolute path as user code sees it, in which absolute paths and links may be given.
            later: It is not there yet. It is not even looked for: a network file system would remember that for a while.
        """
        self.path = path if later else os.path.realpath(path)
        self.fd = -1
        if not later:
            self.open()

    def open(self) -> None:
        """Opens it, if it is not open yet.

        Raises:
            OSError: It is not there.
        """
        if self.fd < 0:
            self.fd = os.open(self.path, _DIRECTORY)

    @contextmanager
    def locate(self, path: str, lookup: Lookup = Lookup()) -> Iterator[Place]:  # noqa: B008 - immutable
        """Resolves a path; the directory stays open for the block.

        Args:
            path: Relative to the workspace, or absolute and below it.
            lookup: How.

        Yields:
            The place; whether there's anything by that name is for the caller to see.

        Raises:
            FileError: It leads out of the workspace, or through what is no directory.
        """
        if not path or "\0" in path or len(path) > LENGTH_MAX:
            raise FileError(
                "invalid_path", f"{path[:100]!r}: not a path of 1 to {LENGTH_MAX} characters"
            )
        walk = _Walk(self, path, lookup)
        try:
            yield walk.run()
        finally:
            walk.close()

    def open_directory(self, path: str) -> int:
        """Opens a directory below the workspace.

        Raises:
            FileError: There's none, or it's outside.
        """
        with self.locate(path) as place:
            try:
                return os.open(place.name, _DIRECTORY, dir_fd=place.folder)
            except OSError as error:
                raise translate(path, error) from error

    def below(self, parts: list[str]) -> list[str] | None:
        """Cuts the workspace off an absolute path's components; None if they don't begin with its own."""
        own = split(self.path)
        return parts[len(own) :] if parts[: len(own)] == own else None


def split(path: str) -> list[str]:
    """The components of a path. Not normalized: what ".." leaves may be a symbolic link."""
    return [part for part in path.split("/") if part not in ("", ".")]


class _Walk:
    """One resolution: an open directory, the names that led there, and the components still ahead."""

    def __init__(self, workspace: Workspace, path: str, lookup: Lookup) -> None:
        self._workspace = workspace
        self._path = path
        self._lookup = lookup
        self._names: list[str] = []
        self._ahead: list[str] = []
        self._links = 0
        self._folder = os.dup(workspace.fd)
        self._push(path, f"{path}: outside of the workspace")

    def close(self) -> None:
        os.close(self._folder)

    def run(self) -> Place:
        for _ in range(_STEPS_MAX):
            if not self._ahead:
                return Place(self._folder, ".")
            part = self._ahead.pop()
            if part == "..":
                self._climb()
                continue
            last = not self._ahead
            target = None if last and not self._lookup.follow else self._link(part)
            if target is not None:
                self._follow(part, target)
            elif last:
                return Place(self._folder, part)
            else:
                self._enter(part)
        raise FileError("invalid_path", f"{self._path}: more than {_STEPS_MAX} steps")

    def _push(self, path: str, refusal: str) -> None:
        parts = split(path)
        if path.startswith("/"):
            below = self._workspace.below(parts)
            if below is None:
                raise self._refuse(refusal)
            self._restart(())
            parts = below
        self._ahead += reversed(parts)

    def _restart(self, names: tuple[str, ...]) -> None:
        os.close(self._folder)
        self._folder = os.dup(self._workspace.fd)
        self._names.clear()
        self._ahead += reversed(names)

    def _refuse(self, message: str) -> FileError:
        return FileError("outside_workspace", message)

    def _climb(self) -> None:
        # Not by opening "..": the directory may have been moved out of the workspace since it was entered.
        if not self._names:
            raise self._refuse(f"{self._path}: outside of the workspace")
        self._restart(tuple(self._names[:-1]))

    def _link(self, part: str) -> str | None:
        try:
            return os.readlink(part, dir_fd=self._folder)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):  # no link; nothing at all
                return None
            raise translate(self._path, error) from error

    def _follow(self, part: str, target: str) -> None:
        self._links += 1
        link = "/".join([*self._names, part])
        if self._links > _LINKS_MAX:
            raise FileError("invalid_path", f"{self._path}: more than {_LINKS_MAX} symbolic links")
        self._push(
            target, f"{self._path}: {link} is a symbolic link to {target}, outside of the workspace"
        )

    def _enter(self, part: str) -> None:
        for attempt in ("open", "make"):
            try:
                folder = os.open(part, _DIRECTORY, dir_fd=self._folder)
                break
            except FileNotFoundError as error:
                if not self._lookup.create or attempt == "make":
                    raise translate(self._path, error) from error
            except OSError as error:
                raise translate(self._path, error) from error
            try:
                os.mkdir(part, 0o755, dir_fd=self._folder)
            except FileExistsError:
                continue
            except OSError as error:
                raise translate(self._path, error) from error
        else:
            raise FileError("not_found", f"{self._path}: vanished while it was looked up")
        os.close(self._folder)
        self._folder = folder
        self._names.append(part)


def kind_of(mode: int) -> str:
    """Names what a file is: file, directory, symlink or other."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"
