"""Lets user code run for as long as the session is provably this worker's: where its files are on a volume that others mount.

The sandbox's first process looks at the clock itself, so user code stands still in time also when this process hangs.
"""

from __future__ import annotations

import asyncio
import time

from shared import logs
from shared.errors import OutcomeUnknown
from worker_agent.core.lease import AGAIN_S, EVERY_S, LeaseTimes, must_stand_still, try_s
from worker_agent.loops.commit import Committer
from worker_agent.ports import Held, Sandbox

log = logs.get(__name__)

_NS = 1_000_000_000


class LeaseKeeper:
    """Renews one session's lease."""

    def __init__(self, committer: Committer, sandbox: Sandbox, times: LeaseTimes) -> None:
        """Prove by `committer`, tell `sandbox`."""
        self._committer = committer
        self._sandbox = sandbox
        self._lasts_ns = round(times.lasts_s * _NS)
        self._until_ns = 0
        self._still = False
        """Everything stands still because the lease is about to end."""
        self._wanted = asyncio.Event()

    async def begin(self, held: Held) -> None:
        """Get the first lease, or one after a pause; return when there is one.

        Raises:
            StaleEpoch: another owner has the session.
            OutcomeUnknown: no proof for too long.
        """
        end_at = time.monotonic() + self._committer.give_up_s
        while not await self._renew(held):
            if time.monotonic() > end_at:
                raise OutcomeUnknown(f"session {held.record.session}: no proof that it is ours")
            await asyncio.sleep(AGAIN_S)
        self._wanted.set()

    def pause(self) -> None:
        """Renew no more: the session is about to be given back."""
        self._wanted.clear()

    async def run(self, held: Held) -> None:
        """Renew again and again from `begin` on, until cancelled.

        Raises:
            StaleEpoch: another owner has the session.
        """
        is_proven = True
        while True:
            await self._wanted.wait()
            await asyncio.sleep(EVERY_S if is_proven else AGAIN_S)
            if not self._wanted.is_set():
                continue
            await self._stand_still_in_time(held, 0.0)  # this process may have hung
            is_proven = await self._renew_in_time(held)
            if not is_proven:
                await self._stand_still_in_time(held, AGAIN_S)

    async def _stand_still_in_time(self, held: Held, for_s: float) -> None:
        """Let everything stand still if nothing could do so in time in `for_s` seconds, when this is asked again."""
        if not self._still and must_stand_still(self._left_s(), for_s=for_s):
            log.warning("lease.ends", session_id=held.record.session)
            self._still = True
            await self._sandbox.freeze()

    async def _renew_in_time(self, held: Held) -> bool:
        try:
            async with asyncio.timeout(try_s(self._left_s(), still=self._still)):
                return await self._renew(held)
        except TimeoutError:
            return False

    async def _renew(self, held: Held) -> bool:
        if held.record.state != "running":
            return False  # it was given back, or has ended: nobody's lease any more
        asked_ns = _now_ns()
        if not await self._committer.confirm(held):
            return False
        self._until_ns = asked_ns + self._lasts_ns
        self._sandbox.lease(self._until_ns)
        if self._still:
            log.warning("lease.goes_on", session_id=held.record.session)
            self._still = False
            await self._sandbox.thaw()
        return True

    def _left_s(self) -> float:
        return (self._until_ns - _now_ns()) / _NS


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
