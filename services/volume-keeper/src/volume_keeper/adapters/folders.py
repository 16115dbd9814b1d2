"""Folders on a volume that several nodes mount: every step is one atomic call, and safe beside other keepers, also late ones.

A pod's folder is a keeper's own: the sandbox may enter it, and write only into what lies in it. So user code can neither move
a session's folder nor make one that looks like another's.
"""

from __future__ import annotations

import errno
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from shared.errors import NotFound, StaleEpoch, Unavailable
from shared.volumes import FOLDER
from volume_keeper.core.places import PODS, SESSIONS, TRASH, Taking, read_session, read_takings

POD_MODE = 0o750
"""Of a pod's folder: its sandbox is of the group."""
FILES_MODE = 0o2770
"""Of a session's: the sandbox's user makes files in it, all of one group."""
TOP_MODE = 0o755
"""Nodes look a pod's folder up, perhaps as nobody."""
ROUNDS_MAX = 8
"""So often somebody else may move the folder meanwhile, until it is asked for again."""
_THERE = (errno.EEXIST, errno.ENOTEMPTY)

P = ParamSpec("P")
R = TypeVar("R")


def _as_ours(
    act: Callable[Concatenate[SharedFolders, P], R],
) -> Callable[Concatenate[SharedFolders, P], R]:
    @wraps(act)
    def tried(self: SharedFolders, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return act(self, *args, **kwargs)
        except OSError as exc:
            raise Unavailable(f"{self.called}: {exc.strerror or exc}") from exc

    return tried


class SharedFolders:
    """Implements `ports.Folders`."""

    def __init__(self, volume: Path, called: str = "the volume") -> None:
        """Keep what lies below `volume`.

        Args:
            volume: where it is mounted.
            called: as errors name it.
        """
        self.called = called
        self._volume = volume
        self._pods, self._sessions, self._trash = (
            volume / name for name in (PODS, SESSIONS, TRASH)
        )

    @_as_ours
    def begin(self) -> None:
        """Have the three folders that everything lies in."""
        for folder in (self._pods, self._sessions, self._trash):
            folder.mkdir(exist_ok=True)
            if folder.stat().st_uid == os.geteuid():
                folder.chmod(TOP_MODE)

    @_as_ours
    def make(self, pod: str) -> None:
        """Have a folder for a pod."""
        folder = self._pods / pod
        with suppress(FileExistsError):
            folder.mkdir()
        if folder.stat().st_uid != os.geteuid():
            raise Unavailable(f"{self.called}: {PODS}/{pod} was made by somebody else")
        folder.chmod(POD_MODE)

    @_as_ours
    def take(self, name: str, taking: Taking) -> bool:
        """Move a session's folder into that of a pod; return whether it was made just now."""
        if not (self._pods / taking.pod).is_dir():
            raise NotFound(f"{self.called}: pod {taking.pod} has no folder")
        for _ in range(ROUNDS_MAX):
            before = self._takings(name)
            if before is None:
                if self._begin_session(name, taking):
                    return True
                continue
            if before and before[0].epoch > taking.epoch:
                raise StaleEpoch(f"{name}: taken under epoch {before[0].epoch}, not {taking.epoch}")
            (self._sessions / name / taking.name).touch()
            if self._fetch(name, taking):
                return False
        raise Unavailable(f"{self.called} does not show the folder of {name} now")

    def _begin_session(self, name: str, taking: Taking) -> bool:
        """Make a session's first folder, and then its name, which is what makes it the session's; False: there is one."""
        files = self._pods / taking.pod / FOLDER
        with suppress(FileExistsError):
            files.mkdir()
        files.chmod(FILES_MODE)
        made = self._sessions / f".{uuid.uuid4().hex}"
        made.mkdir()
        (made / taking.name).touch()
        _sync(files)
        try:
            made.rename(self._sessions / name)
        except OSError as exc:
            (made / taking.name).unlink()
            made.rmdir()
            if exc.errno not in _THERE:
                raise  # the same taking may be under way a second time: the folder may be that one's
            if all(one.pod != taking.pod for one in self._takings(name) or ()):
                with suppress(FileNotFoundError):
                    files.rmdir()
            return False
        _sync(self._sessions)
        return True

    def _fetch(self, name: str, taking: Taking) -> bool:
        """Look for the folder where it was taken to, newest first, and move it; False: look again."""
        target = self._pods / taking.pod / FOLDER
        takings = self._takings(name) or []
        if takings and takings[0].epoch > taking.epoch:
            raise StaleEpoch(f"{name}: taken under epoch {takings[0].epoch}, not {taking.epoch}")
        for one in takings:
            if one == taking:
                if target.is_dir():
                    break  # asked for again
                continue
            with suppress(FileNotFoundError):
                (self._pods / one.pod / FOLDER).rename(target)
                _sync(target.parent)
                break
        else:
            return False
        now = self._takings(name) or []
        if now and now[0].epoch > taking.epoch:
            raise StaleEpoch(f"{name}: taken under epoch {now[0].epoch} meanwhile")
        for one in takings:
            if one != taking:
                (self._sessions / name / one.name).unlink(missing_ok=True)
        return True

    @_as_ours
    def room(self) -> tuple[int, int]:
        """Return the volume's size, and how much of it is free, bytes."""
        found = os.statvfs(self._volume)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    @_as_ours
    def sessions(self) -> list[str]:
        """Return the sessions that have a folder."""
        return [name for name in _names(self._sessions) if read_session(name)]

    @_as_ours
    def taken_s_ago(self, name: str) -> float:
        """Return for how many seconds nobody has taken a session's folder; 0 where there is none."""
        with suppress(FileNotFoundError):
            return max(time.time() - (self._sessions / name).stat().st_mtime, 0.0)
        return 0.0

    @_as_ours
    def discard(self, name: str) -> None:
        """Put a session's folder where it is removed."""
        takings = self._takings(name)
        if takings is None:
            return
        for one in takings:
            with suppress(FileNotFoundError):
                (self._pods / one.pod / FOLDER).rename(self._trash / f"{name}.{one.epoch}")
        for one in takings:
            (self._sessions / name / one.name).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            (self._sessions / name).rmdir()

    @_as_ours
    def clear_pods(self, keep: frozenset[str], older_s: float) -> int:
        """Clear folders of pods away that are not to be kept and have not changed for so long."""
        named = {one.pod for name in self.sessions() for one in (self._takings(name) or ())} | keep
        cleared = 0
        for pod in _names(self._pods):
            folder = self._pods / pod
            with suppress(FileNotFoundError):
                if pod in named or time.time() - folder.stat().st_mtime < older_s:
                    continue
                with suppress(
                    FileNotFoundError
                ):  # what no session names: it was made, and then somebody died
                    (folder / FOLDER).rename(self._trash / f".{uuid.uuid4().hex}")
                folder.rmdir()
                cleared += 1
        return cleared

    @_as_ours
    def clear_trash(self) -> None:
        """Remove what has been emptied."""
        for name in _names(self._trash):
            try:
                (self._trash / name).rmdir()
            except OSError as exc:
                if exc.errno not in (*_THERE, errno.ENOENT):
                    raise

    def _takings(self, name: str) -> list[Taking] | None:
        """Return who took a session's folder, newest first; None: nobody ever did."""
        try:
            return read_takings(_names(self._sessions / name))
        except FileNotFoundError:
            return None


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def _sync(folder: Path) -> None:
    """Have what was done to a folder outlive a crash of its storage."""
    with _opened(folder) as fd:
        os.fsync(fd)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)
