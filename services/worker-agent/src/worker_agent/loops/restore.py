"""A workspace is filled from a snapshot, or the session is given back to be restored elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Literal

from shared import heads, logs
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
from worker_agent.loops.waiting import NotWaited, Waiting
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
        self._waiting = Waiting(committer)

    def leave(self) -> None:
        """The worker is to leave: it waits for no store then."""
        self._waiting.leave()

    def cancel(self) -> None:
        """The task that waits for its files is cancelled."""
        self._waiting.cancel()

    async def restore(
        self, held: Held, task: str, head: Head, left_s: float
    ) -> Literal["restored"] | NotWaited:
        """Fill the workspace with a head, however often that must be tried.

        Raises:
            StaleEpoch: another owner has the session.
        """
        self._waiting.begin(left_s)
        found_lost = 0
        while (left_s := self._waiting.left_s) > 0:
            try:
                await self._try(held, task, head, min(JOB_S, left_s))
            except StaleEpoch:
                raise
            except (NotFound, InvalidMessage, Damaged) as exc:
                found_lost += 1
                if found_lost == LOST_TRIES:
                    await self._lose(held, head, exc)
                    return await self._waiting.give_back(held, 0)
                self._say(exc)
            except LimitExceeded as exc:
                log.warning("restore.refused", session_id=held.record.session, error=str(exc))
                return await self._waiting.give_back(held, NO_ROOM_S)
            except ServiceError as exc:
                found_lost = 0
                self._say(exc)
            else:
                self._say(None)
                return "restored"
            if (in_vain := await self._waiting.pause(held, AGAIN_S)) is not None:
                return in_vain
        return "late"

    async def _try(self, held: Held, task: str, head: Head, left_s: float) -> None:
        """Try once, unless the worker is to leave or the task is cancelled first."""
        if self._workspaces is None:
            raise Unavailable("this node has no checkpointer")
        assert head.snapshot is not None, "there is something to restore"
        job = asyncio.ensure_future(
            self._workspaces.restore(held, task, head.snapshot, left_s=left_s)
        )
        ended = asyncio.ensure_future(self._waiting.end())
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


def _now_ms() -> int:
    return int(time.time() * 1000)
