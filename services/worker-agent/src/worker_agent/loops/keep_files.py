"""A session's files between its pod and its snapshots: restored before the first task, saved before each result.

In the middle of a task they are saved every now and then; then user code stands still until all of them are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Literal

from shared import heads, logs
from shared.errors import LimitExceeded, ServiceError, StaleEpoch, Unavailable
from shared.heads import Head
from shared.limits import CHECKPOINT_PAUSE_S_MAX
from shared.pools import OnInterrupt
from shared.record import Record
from shared.workspace import SnapshotRef
from worker_agent.core.kept import Beginning, Kept
from worker_agent.core.recovery import recovery_of
from worker_agent.loops.commit import Committer
from worker_agent.loops.midway import Midway, Pause
from worker_agent.loops.reasons import Reasons
from worker_agent.loops.restore import Restorer
from worker_agent.loops.waiting import NotWaited
from worker_agent.ports import Held, Sandbox, Workspaces
from worker_agent.settings import WorkerSettings

log = logs.get(__name__)

JOB_S = 600.0
"""Longest save or restore; what takes longer is asked for anew."""
REST_S = 15.0
"""Longest save before a release: what completed tasks did is saved already."""
AGAIN_S = 0.5
"""Pause before a save or restore that failed is tried again."""
MARK_AFTER_S = 0.1
"""A session's first task has run for so long before its workspace is marked: most one-shots are over by then."""


class FileKeeper:
    """Keeps one session's files, for as long as this worker owns it."""

    on_volume = False

    def __init__(
        self,
        workspaces: Workspaces | None,
        sandbox: Sandbox,
        committer: Committer,
        settings: WorkerSettings,
        on_change: Callable[[], None],
    ) -> None:
        """Save and restore by `workspaces`; None: the node has no checkpointer.

        `on_change` is called when what the heartbeat should say has changed.
        """
        self._workspaces = workspaces
        self._sandbox = sandbox
        self._committer = committer
        self._every_s = settings.checkpoint_every_s
        self._waits = settings.durability == "saved"
        self._on_change = on_change
        self._base: SnapshotRef | None = None
        """What the workspace was restored from, or saved as, the last time."""
        self._whole = False
        self._dirty = self._ran = False
        self._midway: Midway | None = None
        self.doing: Literal["restoring", "saving"] | None = None
        self._reasons = Reasons(workspaces, on_change)
        self._restorer = Restorer(workspaces, committer, self._reasons.say)
        self._safe_ms = 0
        """While a task runs: when what the death of the node would leave was taken, wall clock."""
        self._in_hand, self._goes_back = False, True
        """A task is; it begins again from the boundary when its worker dies, whatever was saved since."""
        self.useless = False
        """The workspace holds what is nobody's: the session is given back as its record says it is."""

    def leave(self) -> None:
        """The worker is to leave: wait for no store, and save the task in hand at once, and again until it leaves."""
        self._restorer.leave()
        if self._midway is not None:
            self._midway.leave()

    @property
    def reason(self) -> tuple[str, int]:
        """Why files can't be saved or restored now, and since when (wall clock, milliseconds); empty: they can."""
        return self._reasons.now(self._safe_ms, self._every_s)

    @property
    def unsaved_bytes(self) -> int | None:
        """See `WorkerBeat`."""
        return self._sandbox.changed_bytes if self._in_hand else None

    def cancel(self) -> None:
        """The task in hand is cancelled: it waits for its files no more."""
        self._restorer.cancel()

    async def begin(
        self, held: Held, task: str, rule: OnInterrupt, left_s: float
    ) -> Beginning | NotWaited:
        """Make the workspace what a task begins with.

        Args:
            held: the session.
            task: the task that is to run.
            rule: what becomes of it if it was interrupted.
            left_s: seconds until its deadline.

        Returns:
            `late`: its deadline passed first. `cancelled`: it was, before its files were there. `given_back`: it can't be restored here; the session waits for another
            worker.

        Raises:
            StaleEpoch: another owner has the session.
        """
        record, began_ms = held.record, time.time() * 1000
        restored_ms, head = 0.0, Head("empty")
        if not self._whole:
            head = heads.head_for(record, task, rule)
            if head.snapshot is not None:
                self._do("restoring")
                outcome = await self._restorer.restore(held, task, head, left_s)
                self._do(None)
                if outcome != "restored":
                    return outcome
                restored_ms = time.time() * 1000
            if head.which != "latest":
                await self._tell_unsaved(held)
            self._whole, self._base = True, head.snapshot
        if self._workspaces is not None and (record.first_done or restored_ms):
            self._workspaces.mark(held.record, task)
        self._dirty = self._ran = True
        self._in_hand, self._goes_back = True, rule == "rerun"
        self._sandbox.count_changes(_now_ms())
        now_ms = time.time() * 1000
        recovery = recovery_of(record, task, rule, head, (began_ms, now_ms))
        return Beginning(recovery=recovery, restored_ms=restored_ms)

    @contextlib.asynccontextmanager
    async def checkpoints(self, held: Held, task: str) -> AsyncIterator[None]:
        """While inside, save the workspace every now and then.

        Raises:
            StaleEpoch: another owner has the session (in a group); what is inside is cancelled.
        """
        if self._workspaces is None:
            yield
            return
        async with asyncio.TaskGroup() as group:
            self._midway = midway = Midway(
                group, self._every_s, lambda: self._checkpoint(held, task, midway)
            )
            loop, workspaces = asyncio.get_running_loop(), self._workspaces
            marking = loop.call_later(MARK_AFTER_S, workspaces.mark, held.record, task)
            self._safe_ms = _now_ms()
            try:
                yield
            finally:
                self._midway, self._safe_ms = None, 0
                marking.cancel()
                midway.end()

    async def save(self, held: Held, task: str, *, read_only: bool) -> Kept:
        """Save what a task left behind, before its result is committed: however long that takes, unless that is waived.

        Raises:
            StaleEpoch: another owner has the session.
        """
        if not self._dirty or (read_only and not held.record.checkpoint_stale_ms):
            self._dirty = False
            return Kept(effects="none")
        self._dirty = False
        if self._workspaces is None:
            return Kept(effects="unsaved")
        self._do("saving")
        try:
            while True:
                try:
                    snapshot = await self._save(held, task, JOB_S)
                except StaleEpoch:
                    raise
                except ServiceError as exc:
                    self._reasons.say(exc)
                    if not self._waits or isinstance(exc, LimitExceeded):
                        return Kept(effects="unsaved", error=exc.info())
                else:
                    self._reasons.say(None)
                    return Kept(effects="saved", snapshot=snapshot)
                await asyncio.sleep(AGAIN_S)
        finally:
            self._do(None)

    async def find(self, held: Held, task: str, wanted: str, left_s: float) -> SnapshotRef:
        """Return the snapshot that the record is to go back to; no collection takes it from now on.

        Raises:
            StaleEpoch: another owner has the session.
            ServiceError: there is no such snapshot, or nobody could be asked in that time.
        """
        if self._workspaces is None:
            raise Unavailable("this node has no checkpointer")
        return await self._workspaces.retain(held.record, task, wanted, left_s=left_s)

    def committed(self, record: Record) -> None:
        """A task's result is stored: the workspace holds nothing in part."""
        self._in_hand = False
        whole = self._whole and not self.useless
        if self._workspaces is not None and whole and record.state == "running":
            self._workspaces.mark(record, "")

    def spoil(self) -> None:
        """What is in the workspace is nobody's: the task in hand has another's result, or the session goes back."""
        if self._workspaces is not None:
            self.useless = True
            self._workspaces.unmark()

    async def rest(self, held: Held) -> Record:
        """Return the record to release, the workspace saved once more: something may have run beside the tasks."""
        if self._workspaces is None or not self._ran or self.useless:
            return held.record
        self._do("saving")
        try:
            return heads.saved(held.record, await self._save(held, "", REST_S))
        except StaleEpoch:
            raise
        except ServiceError as exc:
            log.warning("checkpoint.missed", session_id=held.record.session, error=str(exc))
            return held.record
        finally:
            self._do(None)

    async def taken_back(self, held: Held) -> None:
        """Nothing was changed by the release."""

    # --- the steps ---------------------------------------------------------------------------------------------------
    async def _tell_unsaved(self, held: Held) -> None:
        """What was rescued beyond the boundary is not gone on with: its task runs again from before it."""
        lost = heads.lose_unsaved(held.record, cause="rolled_back", now_ms=_now_ms())
        if lost != held.record:
            await self._committer.write(held, lost)

    async def _checkpoint(self, held: Held, task: str, midway: Midway) -> None:
        try:
            snapshot = await self._save(held, task, JOB_S, midway=True)
        except StaleEpoch:
            raise
        except ServiceError as exc:
            self._reasons.say(exc)
            return
        self._reasons.say(None)
        record = held.record
        newest = record.boundary if record.latest is None else record.latest.snapshot
        if snapshot is None or snapshot == newest:
            return
        midway.writing = True
        written = heads.checkpoint(record, held.hold, snapshot=snapshot, task=task)
        await self._committer.write(held, written)
        midway.writing = False
        log.info("checkpoint.taken", session_id=record.session, task_id=task)

    async def _save(
        self, held: Held, task: str, left_s: float, *, midway: bool = False
    ) -> SnapshotRef | None:
        assert self._workspaces is not None
        pause, taken_ms = Pause(self._sandbox), _now_ms()
        try:
            await pause.begin()
            snapshot = await self._workspaces.save(
                held, task, base=self._base, on_scanned=pause.end, left_s=left_s
            )
        finally:
            await pause.end()
        if midway and pause.was_late:
            raise Unavailable(
                f"files were not read within {CHECKPOINT_PAUSE_S_MAX} s (CHECKPOINT_PAUSE_S_MAX)"
            )
        self._base = snapshot or self._base
        if self._safe_ms:
            self._safe_ms = taken_ms
            if not self._goes_back:
                self._sandbox.count_changes(taken_ms)
        return snapshot

    def _do(self, doing: Literal["restoring", "saving"] | None) -> None:
        self.doing = doing
        self._on_change()


def _now_ms() -> int:
    return int(time.time() * 1000)
