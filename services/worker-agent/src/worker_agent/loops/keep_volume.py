"""A session's files on a volume that the pool's pods share: taken over as they are, never saved, never rolled back.

Whoever worked on them before must not go on with that. What ended in order stood still first; of whom nobody saw the end,
the record says so, and its successor waits until that one's lease is surely over.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Literal

import msgspec

from shared import heads, logs
from shared.errors import InvalidMessage, NotFound, ServiceError, StaleEpoch
from shared.heads import Head
from shared.pools import OnInterrupt
from shared.record import Record
from shared.workspace import SnapshotRef
from worker_agent.core.kept import Beginning, Kept, unharmed
from worker_agent.core.lease import LeaseTimes
from worker_agent.core.recovery import recovery_of
from worker_agent.loops.commit import Committer
from worker_agent.loops.keep_lease import LeaseKeeper
from worker_agent.loops.waiting import NotWaited, Waiting
from worker_agent.ports import Held, Sandbox, Volumes

log = logs.get(__name__)

ASK_S = 5.0
"""Longest wait for one answer of a keeper."""
AGAIN_S = 0.3
OTHER_POD_S = 1.0
"""A session that this pod can have no folder for is another's after so long."""
SETTLES = "it waits until the code of its former worker surely stands still"


class VolumeFiles:
    """Implements `loops.files.Files`."""

    on_volume = True

    def __init__(
        self,
        volumes: Volumes,
        sandbox: Sandbox,
        committer: Committer,
        times: LeaseTimes,
        on_change: Callable[[], None],
    ) -> None:
        """Take files over by `volumes`; `on_change` is called when what the heartbeat should say has changed."""
        self.lease = LeaseKeeper(committer, sandbox, times)
        self.doing: Literal["restoring", "saving"] | None = None
        self.useless = False
        self._volumes = volumes
        self._sandbox = sandbox
        self._committer = committer
        self._settles_s = times.settles_s
        self._on_change = on_change
        self._is_mine = self._rests = False
        self._reason, self._reason_ms = "", 0
        self._waiting = Waiting(committer)

    @property
    def reason(self) -> tuple[str, int]:
        """Why the files can't be had now, and since when."""
        return self._reason, self._reason_ms

    @property
    def unsaved_bytes(self) -> int | None:
        """Nothing: it is all on the volume."""
        return 0

    def leave(self) -> None:
        """The worker is to leave: it waits for no files then."""
        self._waiting.leave()

    def cancel(self) -> None:
        """The task in hand waits for its files no more."""
        self._waiting.cancel()

    async def begin(
        self, held: Held, task: str, rule: OnInterrupt, left_s: float
    ) -> Beginning | NotWaited:
        """Take the files over, unless they are here.

        Raises:
            StaleEpoch: another owner has the session.
        """
        record, began_ms, restored_ms = held.record, time.time() * 1000, 0.0
        if not self._is_mine:
            self._do("restoring")
            try:
                in_vain = await self._take(held, left_s)
            finally:
                self._say("")
                self._do(None)
            if in_vain is not None:
                return in_vain
            self._is_mine, restored_ms = True, time.time() * 1000
        now_ms = time.time() * 1000
        recovery = unharmed(recovery_of(record, task, rule, Head("empty"), (began_ms, now_ms)))
        return Beginning(recovery=recovery, restored_ms=restored_ms)

    @contextlib.asynccontextmanager
    async def checkpoints(self, held: Held, task: str) -> AsyncIterator[None]:
        """Nothing is saved in the middle of a task."""
        del held, task
        yield

    async def save(self, held: Held, task: str, *, read_only: bool) -> Kept:
        """What a task left behind lies where the next pod finds it."""
        del held, task, read_only
        return Kept(effects="saved")

    async def find(self, held: Held, task: str, wanted: str, left_s: float) -> SnapshotRef:
        """There are no snapshots.

        Raises:
            InvalidMessage: always.
        """
        del task, left_s
        raise InvalidMessage(
            f"snapshot: {wanted!r}: pool {held.record.pool} keeps workspaces on a volume, without snapshots"
        )

    def committed(self, record: Record) -> None:
        """There is nobody to tell."""

    def spoil(self) -> None:
        """Nothing here is taken back: what a task did whose result is another's stays, as after any interruption."""

    async def rest(self, held: Held) -> Record:
        """Let everything stand still, for good unless the session is taken back; return the record to release."""
        saved = heads.saved(held.record, None)
        if not self._is_mine:
            return saved
        self.lease.pause()
        self._rests = True
        await self._sandbox.freeze()
        # A sandbox that is lost to its sidecar has ended, or will within its lease: nobody saw it.
        return msgspec.structs.replace(saved, files_in_use=self._sandbox.lost)

    async def taken_back(self, held: Held) -> None:
        """Go on."""
        if self._rests:
            self._rests = False
            await self.lease.begin(held)
            await self._sandbox.thaw()

    # --- the steps ---------------------------------------------------------------------------------------------------
    async def _take(self, held: Held, left_s: float) -> NotWaited | None:
        """Take the files over; return why that came to nothing, if it did."""
        self._waiting.begin(left_s)
        if held.record.files_in_use:
            self._say(SETTLES)
            if (in_vain := await self._waiting.pause(held, self._settles_s)) is not None:
                return in_vain
        while True:
            try:
                await self._volumes.take(held.record, left_s=ASK_S)
            except StaleEpoch:
                raise
            except (
                NotFound
            ) as exc:  # it was cleared away, and is never made anew: another pod has one
                log.warning("files.no_folder", session_id=held.record.session, why=str(exc))
                return await self._waiting.give_back(held, OTHER_POD_S)
            except ServiceError as exc:
                self._say(str(exc))
            else:
                break
            if (in_vain := await self._waiting.pause(held, AGAIN_S)) is not None:
                return in_vain
        if held.record.files_in_use:
            await self._committer.write(held, heads.take_files(held.record, held.hold))
        await self.lease.begin(held)
        return None

    def _do(self, doing: Literal["restoring", "saving"] | None) -> None:
        self.doing = doing
        self._on_change()

    def _say(self, reason: str) -> None:
        """Say in the heartbeat why the files can't be had, and since when."""
        if reason == self._reason:
            return
        if reason:
            log.warning("files.waited_for", why=reason)
        if bool(reason) != bool(self._reason):
            self._reason_ms = int(time.time() * 1000) if reason else 0
        self._reason = reason
        self._on_change()
