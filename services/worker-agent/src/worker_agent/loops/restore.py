"""A workspace is filled from a snapshot, or the session is given back to be restored elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Literal

from shared import heads, logs, transitions
from shared.errors import (
    Damaged,
    InvalidMessage,
    LimitExceeded,
    NotFound,
    ServiceError,
    StaleEpoch,
    Unavailable,
)
from shared.heads import Head
from worker_agent.loops.commit import Committer
from worker_agent.ports import Held, Workspaces

log = logs.get(__name__)

JOB_S = 600.0
"""Longest restore; what takes longer is asked for anew."""
AGAIN_S = 0.5
"""Pause before one that failed is tried again."""
LOST_TRIES = 3
"""So often in a row a snapshot must be found missing or damaged to be given up: a read may have gone wrong once."""
NO_ROOM_S = 30.0
"""A session that does not fit here is tried again after so long, elsewhere perhaps."""


class Restorer:
    """Restores one session's workspace."""

    def __init__(
        self,
        workspaces: Workspaces | None,
        committer: Committer,
        say: Callable[[ServiceError | None], None],
    ) -> None:
        """Restore by `workspaces`; `say` is told why that has to wait, or that it does no more."""
        self._workspaces = workspaces
        self._committer = committer
        self._say = say
        self._ended = asyncio.Event()
        self._leaving = self._cancelled = False

    def leave(self) -> None:
        """The worker is to leave: it waits for no store then."""
        self._leaving = True
        self._ended.set()

    def cancel(self) -> None:
        """The task that waits for its files is cancelled."""
        self._cancelled = True
        self._ended.set()

    async def restore(
        self, held: Held, task: str, head: Head, left_s: float
    ) -> Literal["restored", "late", "cancelled", "given_back"]:
        """Fill the workspace with a head, however often that must be tried.

        Raises:
            StaleEpoch: another owner has the session.
        """
        end_at, self._cancelled = time.monotonic() + left_s, False
        if not self._leaving:
            self._ended.clear()
        found_lost = 0
        while (left_s := end_at - time.monotonic()) > 0:
            try:
                await self._try(held, task, head, min(JOB_S, left_s))
            except StaleEpoch:
                raise
            except (NotFound, InvalidMessage, Damaged) as exc:
                found_lost += 1
                if found_lost == LOST_TRIES:
                    await self._lose(held, head, exc)
                    return await self._give_back(held, 0)
                self._say(exc)
            except LimitExceeded as exc:
                log.warning("restore.refused", session_id=held.record.session, error=str(exc))
                return await self._give_back(held, NO_ROOM_S)
            except ServiceError as exc:
                found_lost = 0
                self._say(exc)
            else:
                self._say(None)
                return "restored"
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S):
                    await self._ended.wait()
            if self._cancelled:
                return "cancelled"
            if self._leaving:
                return await self._give_back(held, 0)
        return "late"

    async def _try(self, held: Held, task: str, head: Head, left_s: float) -> None:
        """Try once, unless the worker is to leave or the task is cancelled first."""
        if self._workspaces is None:
            raise Unavailable("this node has no checkpointer")
        assert head.snapshot is not None, "there is something to restore"
        job = asyncio.ensure_future(
            self._workspaces.restore(held, task, head.snapshot, left_s=left_s)
        )
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait({job, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not job.done():
                raise Unavailable("it is not waited for any more")
            job.result()
        finally:
            job.cancel()
            ended.cancel()

    async def _lose(self, held: Held, head: Head, why: ServiceError) -> None:
        """A snapshot is gone or damaged: begin with the older head, or with nothing, and say so."""
        log.error("snapshot.lost", session_id=held.record.session, head=head.which, error=str(why))
        lost = heads.lose_snapshot(
            held.record, held.hold, which=head.which, cause="snapshot_lost", now_ms=_now_ms()
        )
        await self._committer.write(held, lost)

    async def _give_back(self, held: Held, after_s: float) -> Literal["given_back"]:
        """Let another pod try: this one's workspace may be filled in part."""
        now_ms = _now_ms()
        until_ms = now_ms + int(after_s * 1000)
        waiting = transitions.postpone(held.record, held.hold, until_ms=until_ms, now_ms=now_ms)
        await self._committer.write(held, waiting)
        return "given_back"


def _now_ms() -> int:
    return int(time.time() * 1000)
