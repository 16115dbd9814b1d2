"""An idle worker: hear a bell, pull, claim; nothing is outstanding while it waits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from shared import logs
from shared.errors import ServiceError, Unavailable
from shared.service import Stop
from worker_agent.core import lanes
from worker_agent.core.lanes import Lane
from worker_agent.loops.claim import Claimer
from worker_agent.ports import Delivery, Held, Lanes

log = logs.get(__name__)

BELLS_MAX = 64
"""Bells kept while one is answered; the pool-manager rings again for what is dropped."""
LANE_RETRY_S = 0.2
"""Pause after a lane that did not answer."""


class BellWaiter:
    """Waits for work and returns the first session won."""

    def __init__(
        self,
        queue: Lanes,
        claimer: Claimer,
        *,
        batch_first_every: int,
        on_delivery: Callable[[Delivery], None],
    ) -> None:
        """Pull from `queue`, claim by `claimer`.

        `on_delivery` is called with each message before it is claimed: to make ready what it will need.
        """
        self._on_delivery = on_delivery
        self._queue = queue
        self._claimer = claimer
        self._batch_first_every = batch_first_every
        self._bells: asyncio.Queue[Lane] = asyncio.Queue(BELLS_MAX)

    async def wait(self, hints: Sequence[Lane], stop: Stop) -> Held | None:
        """Return the first session that this worker won, or None when it is to leave.

        Args:
            hints: lanes known to hold messages, asked before the first wait.
            stop: set when the worker is to leave.
        """
        await self._queue.listen(self._heard)
        stopping = asyncio.ensure_future(stop.wait())
        try:
            held = await self._ask_hints(hints)
            while held is None and not stop.is_set:
                bell = asyncio.ensure_future(self._bells.get())
                await asyncio.wait({bell, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not bell.done():
                    bell.cancel()
                    break
                held = await self._answer(bell.result())
            return held
        finally:
            stopping.cancel()

    async def leave(self) -> None:
        """Leave the group of idle workers; surplus bells are passed on.

        Called after the session's work has begun: leaving takes a round trip that the session need not wait for.
        """
        try:
            await self._queue.leave()
            while not self._bells.empty():
                await self._queue.ring(self._bells.get_nowait())
        except ServiceError as exc:
            log.debug("bells.dropped", error=exc.code)  # the pool-manager rings again

    def _heard(self, lane: Lane) -> None:
        if self._bells.full():
            return
        self._bells.put_nowait(lane)

    async def _ask_hints(self, hints: Sequence[Lane]) -> Held | None:
        order = lanes.order(hints, draw=random.random(), batch_first_every=self._batch_first_every)
        for lane in order:
            held = await self._answer(lane)
            if held is not None:
                return held
        return None

    async def _answer(self, bell: Lane) -> Held | None:
        """Pull once from the lane that rang, or from a more urgent one that rang as well."""
        rung = [bell]
        while not self._bells.empty():
            rung.append(self._bells.get_nowait())
        ranked = lanes.order(rung, draw=random.random(), batch_first_every=self._batch_first_every)
        for index, lane in enumerate(ranked):
            held = await self._take(lane)
            if held is not None:
                for other in ranked[index + 1 :]:
                    self._heard(other)  # passed on by `leave`
                return held
        return None

    async def _take(self, lane: Lane) -> Held | None:
        try:
            delivery = await self._queue.pull(lane)
        except Unavailable:
            await asyncio.sleep(LANE_RETRY_S * (1 + random.random()))
            return None
        if delivery is None:
            return None
        self._on_delivery(delivery)
        return await self._claimer.claim(delivery)
