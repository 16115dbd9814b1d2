"""One process at a time per node directory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from shared.errors import Conflict


class DirectoryLock:
    """Held until it is closed or the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        """Take the lock of `folder`, made where missing.

        Raises:
            Conflict: another process holds it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            os.close(self._fd)
            raise Conflict(f"another node runs in {folder}") from exc

    def close(self) -> None:
        """Release it."""
        os.close(self._fd)
