"""Pods of a local node: a folder each, by their names, with all that belongs to them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from checkpointer.adapters.pods.names import MARK_BYTES_MAX, WORKSPACE, check_pod
from checkpointer.core.scans import FileOwner
from shared.errors import Unavailable
from shared.workspace import MARK

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CACHE: Final = "saved.cache"
"""Beside a pod's workspace. It goes with the pod."""


class LocalPods:
    """Implements `ports.pods.PodFolders`."""

    owner: FileOwner | None = None

    def __init__(self, pods_dir: Path) -> None:
        """Look in one folder."""
        self._pods_dir = pods_dir

    @contextmanager
    def workspace(self, pod: str) -> Iterator[int]:
        """Open a pod's workspace; see `PodFolders`."""
        check_pod(pod)
        opened: list[int] = []
        try:
            for name in (str(self._pods_dir), pod, WORKSPACE):
                opened.append(os.open(name, _FOLDER, dir_fd=opened[-1] if opened else None))
            yield opened[-1]
        except FileNotFoundError as exc:
            if len(opened) == 3:
                raise
            # Not `NotFound`: the snapshot that is to be restored is as it was.
            raise Unavailable(f"pod {pod} has no workspace on this node") from exc
        finally:
            for fd in opened:
                os.close(fd)

    def mark(self, pod: str) -> bytes | None:
        """Return what its worker says of its workspace; see `PodFolders`."""
        path = self._pods_dir / check_pod(pod) / MARK
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(fd, "rb") as file:
            return file.read(MARK_BYTES_MAX)

    def cache(self, pod: str) -> Path | None:
        """Return the file for what is saved; see `PodFolders`."""
        return self._pods_dir / check_pod(pod) / CACHE
