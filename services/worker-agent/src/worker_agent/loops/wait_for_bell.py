"""An idle worker: hear a bell, pull, claim; nothing is outstanding while it waits."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence

from shared import logs
from shared.errors import ServiceError, Unavailable
from shared.service import Stop
from worker_agent.core.lanes import Lane, known_lanes, most_urgent_lane
from worker_agent.loops.claim import Claimer
from worker_agent.ports import Delivery, Held, Lanes

log = logs.get(__name__)

BELLS_MAX = 64
"""Bells kept until they are answered or passed on; the pool-manager rings again for what is dropped."""
ASKS_MAX = 8
"""Messages of one lane that are taken and dropped before the next lane is asked."""
LANE_RETRY_S = 0.2
"""Pause after a lane that did not answer."""


class BellWaiter:
    """Waits for work and returns the first session won.

    A worker that answers a bell leaves the group of idle workers at once, in the same breath as its pull: bells that
    ring meanwhile are for others, and those already on their way to it are passed on. If the pull brings nothing, it
    joins the group again.
    """

    def __init__(
        self,
        queue: Lanes,
        claimer: Claimer,
        *,
        on_delivery: Callable[[Delivery], None],
    ) -> None:
        """Pull from `queue`, claim by `claimer`.

        `on_delivery` is called with each message before it is claimed: to make ready what it will need.
        """
        self._queue = queue
        self._claimer = claimer
        self._on_delivery = on_delivery
        self._bells: asyncio.Queue[Lane] = asyncio.Queue(BELLS_MAX)
        self._leaving: asyncio.Task[None] | None = None
        self._since_ms: float | None = None

    async def wait(self, hints: Sequence[Lane], stop: Stop) -> Held | None:
        """Return the first session that this worker won, or None when it is to leave.

        Args:
            hints: lanes that may hold messages, asked in this order before the first wait: else a bell for something
                new would go before what waits already.
            stop: set when the worker is to leave.
        """
        if (held := await self._ask(known_lanes(hints), stop)) is not None:
            return held
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set:
                await self._join(stop)
                bell = asyncio.ensure_future(self._bells.get())
                await asyncio.wait({bell, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not bell.done():
                    bell.cancel()
                    break
                if (held := await self._answer(bell.result())) is not None:
                    return held
            return None
        finally:
            stopping.cancel()

    async def leave(self) -> None:
        """Be out of the group of idle workers, all surplus bells passed on."""
        if self._leaving is None:
            self._start_leaving()
        assert self._leaving is not None, "just started"
        await self._leaving

    async def _ask(self, hinted: Sequence[Lane], stop: Stop) -> Held | None:
        """Ask lanes one after another for what is there; a shard that does not answer is asked nothing more."""
        down: set[int] = set()
        for lane in hinted:
            for _ in range(
                ASKS_MAX
            ):  # what is not queued any more is dropped, and the next one asked for
                if lane[1] in down or stop.is_set:
                    break
                try:
                    delivery = await self._queue.pull(lane, wait=len(hinted) == 1)
                except Unavailable:
                    down.add(lane[1])
                    break
                if delivery is None:
                    break
                if (held := await self._claim(delivery)) is not None:
                    return held
        return None

    async def _join(self, stop: Stop) -> None:
        """Join the group of idle workers, however long the servers take."""
        if self._leaving is not None:
            await self._leaving
            self._leaving = None
        if self._since_ms is None:
            self._since_ms = time.time() * 1000
        while not stop.is_set:
            try:
                await self._queue.listen(self._heard)
            except ServiceError as exc:
                log.info("bells.not_heard_yet", error=exc.code)
                await stop.wait(LANE_RETRY_S * (1 + random.random()))
            else:
                return

    def _start_leaving(self) -> None:
        self._leaving = asyncio.create_task(self._leave(), name="leave-idle-group")

    async def _leave(self) -> None:
        try:
            await self._queue.leave()
            while not self._bells.empty():
                await self._queue.ring(self._bells.get_nowait())
        except ServiceError as exc:
            log.debug("bells.dropped", error=exc.code)  # the pool-manager rings again

    def _heard(self, lane: Lane) -> None:
        if not self._bells.full():
            self._bells.put_nowait(lane)

    async def _answer(self, bell: Lane) -> Held | None:
        """Pull once, from the most urgent lane that rang; each other bell is for another worker."""
        rung = [bell]
        while not self._bells.empty():
            rung.append(self._bells.get_nowait())
        lane = most_urgent_lane(rung)
        rung.remove(lane)
        for other in rung:
            self._heard(other)  # passed on by leaving
        self._start_leaving()
        return await self._take(lane)

    async def _take(self, lane: Lane) -> Held | None:
        try:
            delivery = await self._queue.pull(lane, wait=True)
        except Unavailable:
            await asyncio.sleep(LANE_RETRY_S * (1 + random.random()))
            return None
        return None if delivery is None else await self._claim(delivery)

    async def _claim(self, delivery: Delivery) -> Held | None:
        self._on_delivery(delivery)
        return await self._claimer.claim(delivery, self._since_ms)
