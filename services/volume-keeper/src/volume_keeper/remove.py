"""Empties what keepers have put into the trash: `python -m volume_keeper.remove FOLDER`, as the sandboxes' own user.

Files belong to the sandboxes' user, and only that may remove them whatever their modes. It has no connection and mounts
nothing but the trash.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
import uuid
from contextlib import suppress
from pathlib import Path

LOOK_S = 1.0
ROUNDS_MAX = 10_000
"""So many levels go in one look; whoever still writes there keeps the other folders waiting no longer."""


def empty(trash: Path) -> int:
    """Empty each folder in the trash; return how many entries could not be removed."""
    left = 0
    for folder in trash.iterdir():
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            left += _empty(folder)
    return left


def _empty(top: Path) -> int:
    """Empty one folder; return what stays. Nothing is entered deeper than one level: what lies deeper is moved up."""
    stays: set[str] = set()
    for _ in range(ROUNDS_MAX):
        names = [name for name in os.listdir(top) if name not in stays]  # noqa: PTH208 - names alone
        if not names:
            break
        for name in names:
            try:
                _remove(top, name)
            except FileNotFoundError:
                continue
            except OSError:
                stays.add(name)
    return len(stays)


def _remove(top: Path, name: str) -> None:
    """Remove an entry of `top`; folders that are not empty become entries themselves.

    Raises:
        OSError: something of it stays.
    """
    path = top / name
    if not stat.S_ISDIR(path.lstat().st_mode):
        path.unlink()
        return
    path.chmod(0o700)  # its owner may have shut it
    with os.scandir(path) as listed:
        entries = list(listed)
    for entry in entries:
        with suppress(OSError):  # what is in the way of one keeps no other
            _take_out(top, path / entry.name, is_folder=entry.is_dir(follow_symlinks=False))
    path.rmdir()


def _take_out(top: Path, path: Path, *, is_folder: bool) -> None:
    if not is_folder:
        path.unlink()
        return
    path.chmod(0o700)  # only its owner's write permission lets it move
    path.rename(top / f".{uuid.uuid4().hex}")


def main(arguments: list[str]) -> int:
    """Empty the trash again and again until SIGTERM; return the exit code."""
    if len(arguments) != 1:
        raise SystemExit("usage: python -m volume_keeper.remove FOLDER")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    told = 0
    while not stop.wait(LOOK_S):
        with suppress(FileNotFoundError):  # the keeper beside it makes it
            left = empty(Path(arguments[0]))
            if left != told:
                sys.stderr.write(f"{left} entries of the trash can't be removed\n")
                told = left
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
