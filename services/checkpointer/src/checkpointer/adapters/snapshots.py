"""The engine on the workspaces of one node: jobs in threads, broken off when nobody waits any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from checkpointer.adapters.engine.restore import Follower, RestoreJob, restore
from checkpointer.adapters.engine.save import SaveJob, Watcher, save
from checkpointer.adapters.engine.threads import Bridge, Packs, Transfers
from checkpointer.adapters.files.room import clear
from checkpointer.adapters.pods.names import check_pod
from checkpointer.core.entries import show
from checkpointer.core.excludes import Excludes
from checkpointer.core.scans import Look
from checkpointer.ports.engine import Owner, Place, Progress
from checkpointer.ports.pods import PodFolders
from shared.errors import InvalidMessage, Unavailable
from shared.limits import TRANSFER_BYTES_MAX
from shared.messages import decode
from shared.workspace import JobState, Mark, SnapshotRef

T = TypeVar("T")

TORN_MAX = 20
"""Paths that an answer names."""
THREADS = 32
"""Of jobs; how many run at once is decided elsewhere."""


class SnapshotEngine:
    """Implements `ports.engine.Engine`."""

    def __init__(
        self, pods: PodFolders, store: Packs, transfer_bytes: int = TRANSFER_BYTES_MAX
    ) -> None:
        """Work on a node's pods, with packs in `store`, all jobs together with so many bytes on their way."""
        self._pods = pods
        self._transfers = Transfers(transfer_bytes)
        self._store = store
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="job")

    async def save(
        self, place: Place, owner: Owner, parent: SnapshotRef | None, progress: Progress
    ) -> SnapshotRef | None:
        """Store a snapshot of a workspace; see `Engine`."""
        loop = asyncio.get_running_loop()
        bridge = Bridge(self._store, loop, self._transfers)
        watcher = Watcher(_reaching(loop, progress, "scanned"), _noting(progress))

        def work() -> SnapshotRef | None:
            with self._pods.workspace(place.pod) as root:
                job = SaveJob(
                    root=root,
                    tenant=place.tenant,
                    session=place.session,
                    parent=parent,
                    epoch=owner.epoch,
                    task=owner.task,
                    position=owner.position,
                    cache=self._pods.cache(place.pod),
                    look=Look(owner=self._pods.owner, excludes=Excludes(owner.exclude)),
                    excludes=owner.exclude,
                )
                saved = save(job, bridge, watcher)
            progress.torn = tuple(show(path) for path in saved.torn[:TORN_MAX])
            return saved.ref

        return await self._run(work, bridge)

    async def mark(self, pod: str) -> Mark | None:
        """Return what a pod's worker said last of its workspace; see `Engine`."""
        check_pod(pod)

        def read() -> Mark | None:
            try:
                said = self._pods.mark(pod)
                return None if said is None else decode(said, Mark)
            except (OSError, InvalidMessage):
                return None

        return await asyncio.get_running_loop().run_in_executor(self._threads, read)

    async def restore(self, place: Place, snapshot: SnapshotRef, progress: Progress) -> None:
        """Write a snapshot into a workspace in place of all that is in it; see `Engine`."""
        loop = asyncio.get_running_loop()
        bridge = Bridge(self._store, loop, self._transfers)
        follower = Follower(_reaching(loop, progress, "gate_open"), _noting(progress))

        def work() -> None:
            with self._pods.workspace(place.pod) as root:
                clear(root)
                job = RestoreJob(
                    root=root,
                    ref=snapshot,
                    cache=self._pods.cache(place.pod),
                    owner=self._pods.owner,
                )
                restore(job, bridge, follower)

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
