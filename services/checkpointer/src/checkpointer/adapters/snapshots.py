"""The engine on the workspaces of one node: jobs in threads, broken off when nobody waits any more."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from checkpointer.adapters.engine.restore import Follower, RestoreJob, restore
from checkpointer.adapters.engine.save import SaveJob, Watcher, save
from checkpointer.adapters.engine.threads import Bridge, Packs
from checkpointer.adapters.files.room import clear
from checkpointer.core.entries import show
from checkpointer.ports.engine import Owner, Place, Progress
from shared.errors import InvalidMessage, Unavailable
from shared.messages import decode
from shared.workspace import MARK, JobState, Mark, SnapshotRef

T = TypeVar("T")

_POD = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
WORKSPACE = "workspace"
CACHE = "saved.cache"
"""Beside a pod's workspace: what of it is saved already. It goes with the pod."""
MARK_BYTES_MAX = 4096
TORN_MAX = 20
"""Paths that an answer names."""
THREADS = 32
"""Of jobs; how many run at once is decided elsewhere."""


class SnapshotEngine:
    """Implements `ports.engine.Engine`."""

    def __init__(self, pods_dir: Path, store: Packs) -> None:
        """Work on the pods of a folder, with packs in `store`."""
        self._pods_dir = pods_dir
        self._store = store
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="job")

    async def save(
        self, place: Place, owner: Owner, parent: SnapshotRef | None, progress: Progress
    ) -> SnapshotRef | None:
        """Store a snapshot of a workspace; see `Engine`."""
        loop = asyncio.get_running_loop()
        bridge = Bridge(self._store, loop)
        watcher = Watcher(_reaching(loop, progress, "scanned"), _noting(progress))

        def work() -> SnapshotRef | None:
            with self._open(place.pod) as root:
                job = SaveJob(
                    root=root,
                    tenant=place.tenant,
                    session=place.session,
                    parent=parent,
                    epoch=owner.epoch,
                    task=owner.task,
                    position=owner.position,
                    cache=self._pods_dir / place.pod / CACHE,
                )
                saved = save(job, bridge, watcher)
            progress.torn = tuple(show(path) for path in saved.torn[:TORN_MAX])
            return saved.ref

        return await self._run(work, bridge)

    async def mark(self, pod: str) -> Mark | None:
        """Return what a pod's worker said last of its workspace; see `Engine`."""
        if not _POD.fullmatch(pod):
            raise InvalidMessage(f"pod: no such name {pod[:80]!r}")

        def read() -> Mark | None:
            try:
                fd = os.open(
                    self._pods_dir / pod / MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
                )
                with os.fdopen(fd, "rb") as file:
                    return decode(file.read(MARK_BYTES_MAX), Mark)
            except (OSError, InvalidMessage):
                return None

        return await asyncio.get_running_loop().run_in_executor(self._threads, read)

    async def restore(self, place: Place, snapshot: SnapshotRef, progress: Progress) -> None:
        """Write a snapshot into a workspace in place of all that is in it; see `Engine`."""
        loop = asyncio.get_running_loop()
        bridge = Bridge(self._store, loop)
        follower = Follower(_reaching(loop, progress, "gate_open"), _noting(progress))

        def work() -> None:
            with self._open(place.pod) as root:
                clear(root)
                cache = self._pods_dir / place.pod / CACHE
                restore(RestoreJob(root=root, ref=snapshot, cache=cache), bridge, follower)

        await self._run(work, bridge)

    async def _run(self, work: Callable[[], T], bridge: Bridge) -> T:
        """Work in a thread; who is cancelled waits until the thread has let go of the workspace."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            bridge.stop()
            await asyncio.wait({running})
            if not running.cancelled():
                running.exception()  # seen: nobody waits for it
            raise
        except OSError as exc:
            raise Unavailable(f"the workspace: {exc.strerror or exc}") from exc

    @contextmanager
    def _open(self, pod: str) -> Iterator[int]:
        """Open a pod's workspace, never through a link.

        Raises:
            InvalidMessage: no pod is called so.
            Unavailable: it is not on this node (any more).
        """
        if not _POD.fullmatch(pod):
            raise InvalidMessage(f"pod: no such name {pod[:80]!r}")
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


def _reaching(
    loop: asyncio.AbstractEventLoop, progress: Progress, state: JobState
) -> Callable[[], None]:
    """Return what a job's thread calls when it has come so far."""
    return lambda: _ignore(loop.call_soon_threadsafe(progress.reach, state))


def _ignore(_handle: object) -> None:
    return None


def _noting(progress: Progress) -> Callable[[int, int, int, int], None]:
    """Return what a job's thread calls as it goes on."""

    def note(done: int, of: int, entries: int, of_entries: int) -> None:
        progress.done_bytes, progress.total_bytes = done, of
        progress.done_entries, progress.total_entries = entries, of_entries

    return note
