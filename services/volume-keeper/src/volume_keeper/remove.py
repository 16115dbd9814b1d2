"""Empties what keepers have put into the trash: `python -m volume_keeper.remove FOLDER`, as the sandboxes' own user.

Files belong to the sandboxes' user, and only that may remove them whatever their modes. It has no connection and mounts
nothing but the trash.
"""

from __future__ import annotations

import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

LOOK_S = 1.0


def empty(trash: Path) -> int:
    """Empty each folder in the trash; return how many entries could not be removed."""
    left = 0
    for folder in trash.iterdir():
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            for entry in list(folder.iterdir()):
                left += not _remove(entry)
    return left


def _remove(path: Path) -> bool:
    failed: list[str] = []

    def open_up(_act: Callable[..., Any], where: str, _why: object) -> None:
        """Make a folder that its owner shut writable; what is in it goes with the next look."""
        failed.append(where)
        for one in (Path(where).parent, Path(where)):
            with suppress(OSError):
                if stat.S_ISDIR(one.lstat().st_mode):
                    one.chmod(0o700)

    try:
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, onerror=open_up)
        else:
            path.unlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return not failed


def main(arguments: list[str]) -> int:
    """Empty the trash again and again until SIGTERM; return the exit code."""
    if len(arguments) != 1:
        raise SystemExit("usage: python -m volume_keeper.remove FOLDER")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    while not stop.wait(LOOK_S):
        with suppress(FileNotFoundError):  # the keeper beside it makes it
            empty(Path(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
