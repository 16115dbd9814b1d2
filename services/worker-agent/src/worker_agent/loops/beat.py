"""Heartbeats that name (session, epoch), and the worker's own fence.

They are sent from the event loop: user code runs in other processes, so a loop that stands still is a worker that
stands still, and should look like one.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable

from shared import logs
from shared.errors import ServiceError, StaleEpoch
from shared.messages import WorkerBeat
from shared.record import Hold, is_mine
from worker_agent.ports import Contact, Held, Sandbox, Truth
from worker_agent.settings import WorkerSettings

log = logs.get(__name__)


class Beater:
    """Beats until cancelled."""

    def __init__(
        self,
        contact: Contact,
        settings: WorkerSettings,
        beat: Callable[[], WorkerBeat],
    ) -> None:
        """Send what `beat` returns over `contact`."""
        self._contact = contact
        self._settings = settings
        self._beat = beat
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """What the heartbeat says has changed: send one soon."""
        self._changed.set()

    async def run(self, on_bound: Callable[[], Awaitable[None]]) -> None:
        """Beat for ever; call `on_bound` before each beat of a bound worker."""
        while True:
            beat = self._beat()
            bound = beat.session is not None
            if bound:
                await on_bound()
            with contextlib.suppress(ServiceError):  # contact lost: the fence watches that
                await self._contact.beat(self._beat())
            interval_s = self._settings.beat_bound_s if bound else self._settings.beat_warm_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s * random.uniform(0.9, 1.0)):
                    await self._changed.wait()
            self._changed.clear()


class Fence:
    """Freezes user code when contact is lost, and asks whose session it is before user code goes on."""

    def __init__(
        self, contact: Contact, truth: Truth, sandbox: Sandbox, settings: WorkerSettings
    ) -> None:
        """Watch `contact`, freeze `sandbox`."""
        self._contact = contact
        self._truth = truth
        self._sandbox = sandbox
        self._freeze_after_s = settings.fence_s - settings.fence_margin_s
        self._give_up_s = settings.give_up_s
        self._frozen_at: float | None = None
        self._checked: tuple[Hold, float] | None = None
        """What was held at the last look, and when that was."""

    @property
    def frozen(self) -> bool:
        """Whether user code is frozen now."""
        return self._frozen_at is not None

    async def check(self, held: Held) -> None:
        """Freeze, thaw or give up, as the time since the last contact demands.

        Raises:
            StaleEpoch: another owner has the session, or contact stayed away too long.
        """
        away_s = max(self._contact.age_s(), self._stood_still_s(held.hold))
        if self._frozen_at is None:
            if away_s <= self._freeze_after_s:
                return
            self._frozen_at = time.monotonic()
            log.warning("session.frozen", session_id=held.record.session, away_s=round(away_s, 2))
            await self._sandbox.freeze()
        if time.monotonic() - self._frozen_at > self._give_up_s:
            raise StaleEpoch(f"no contact for {self._give_up_s:.0f} s")
        if not await self._contact.probe():
            return
        try:
            record = held.record
            found = await self._truth.read(record.tenant, record.session, record.pool)
        except ServiceError:
            return
        if found is None or not is_mine(found[0], held.hold):
            raise StaleEpoch(f"session {record.session}: revoked while this worker had no contact")
        self._frozen_at = None
        log.warning("session.thawed", session_id=record.session, epoch=record.epoch)
        await self._sandbox.thaw()

    def _stood_still_s(self, hold: Hold) -> float:
        """Return the seconds since the last look at the same hold.

        A loop that stood still may hear from the servers before it comes to look: that contact is fresh and says
        nothing of the time between, in which others may have taken the session.
        """
        now = time.monotonic()
        last, self._checked = self._checked, (hold, now)
        return now - last[1] if last is not None and last[0] == hold else 0.0
