"""Pod directories: made at a start, kept until the pod is deleted, removed aside from everything else.

<node dir>/pods/<pod>/          node's user; 0711, so that a sandbox on the host's files reaches its own
    workspace/                  the sandbox's user, 0700
    tmp/                        likewise; only used where a sandbox has no /tmp of its own
    used                        written by the sidecar before its first pull: found at its start, it ends the pod
<node dir>/trash/               what is to be removed
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from pathlib import Path

from shared import logs
from shared.errors import Conflict

log = logs.get(__name__)

_REMOVE_TIMEOUT_S = 600.0


class PodFiles:
    """The directories of one node's pods. One process per node directory (the caller holds its lock)."""

    def __init__(self, node_dir: Path) -> None:
        """Use `node_dir`, made where missing; whatever an earlier process left there becomes trash."""
        node_dir = node_dir.absolute()
        self.pods_dir = node_dir / "pods"
        self._trash = node_dir / "trash"
        self._numbers = itertools.count()
        node_dir.mkdir(parents=True, exist_ok=True)
        for folder, mode in ((node_dir, 0o711), (self.pods_dir, 0o711), (self._trash, 0o700)):
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)
        for left in self.pods_dir.iterdir():
            self.discard(left.name)

    def create(self, pod: str, uid: int | None, *, with_tmp: bool) -> Path:
        """Make a pod's directory.

        Args:
            pod: its name.
            uid: owner of its workspace; None: this process's user.
            with_tmp: its sandbox has no /tmp of its own.

        Raises:
            Conflict: it exists.
        """
        path = self.pods_dir / pod
        try:
            path.mkdir(0o711)
        except FileExistsError as exc:
            raise Conflict(f"pod {pod}: its directory exists") from exc
        path.chmod(0o711)  # whatever the umask
        for name in ("workspace", "tmp") if with_tmp else ("workspace",):
            (path / name).mkdir(0o700)
            if uid is not None:
                os.chown(path / name, uid, uid)
        return path

    def exists(self, pod: str) -> bool:
        """Whether the pod's directory is there."""
        return (self.pods_dir / pod).is_dir()

    def discard(self, pod: str) -> None:
        """Free a pod's name at once; its files go with the next `empty_trash`."""
        try:
            # The time: a node in a container has the same pid each time, and may find its own former trash.
            name = f"{time.time_ns()}-{next(self._numbers)}-{pod}"
            (self.pods_dir / pod).rename(self._trash / name)
        except FileNotFoundError:
            return

    async def empty_trash(self) -> None:
        """Remove what was discarded.

        By rm: a sandbox can leave trees deeper than a recursive function reaches, and it works aside.
        """
        try:
            for path in sorted(self._trash.iterdir()):
                code = await _remove(path)
                if code != 0:
                    log.warning("trash.kept", path=str(path), exit_code=code)
        except OSError as exc:  # no rm, no processes left: tried again with the next
            log.warning("trash.kept", path=str(self._trash), error=str(exc))


async def _remove(path: Path) -> int:
    process = await asyncio.create_subprocess_exec(
        "rm", "-rf", "--one-file-system", "--", str(path), stdin=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(_REMOVE_TIMEOUT_S):
            return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
