"""Many tasks of two classes at once, over one connection with one subscription for all results."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass

from harness.load import HOLDING_CODE, Call, task_id
from harness.running import CannotMeasure

from agent_sandbox.places import TENANT
from shared import subjects
from shared.bus import Bus, Message
from shared.messages import TaskResult, decode
from shared.task import Python, encode_task

DEADLINE_S = 600.0
"""Of a task, waiting included: longer than any part."""
POLL_S = 0.05


@dataclass
class Shot(Call):
    """One task of a class."""

    klass: str = ""


class Crowd:
    """Publishes one-shots of a fixed length and collects their results."""

    def __init__(self, bus: Bus, pool: str, task_s: float) -> None:
        """Publish over `bus`; `listen` comes first."""
        self._bus = bus
        self._pool = pool
        self._body = encode_task(
            Python(code=HOLDING_CODE.format(seconds=task_s), deadline_s=DEADLINE_S)
        )
        self._number = 0
        self.shots: dict[str, Shot] = {}
        self.open: Counter[str] = Counter()
        """Tasks without a result, by class."""

    @property
    def finished_count(self) -> int:
        """How many tasks have their result."""
        return len(self.shots) - self.open.total()

    async def listen(self) -> None:
        """Hear all results of the tenant."""
        await self._bus.subscribe(subjects.done(TENANT), self._hear)

    async def publish(self, klass: str) -> Shot:
        """Publish one task; return it once it is accepted."""
        self._number += 1
        shot = Shot(task=task_id(self._number), due_ns=time.time_ns(), klass=klass)
        self.shots[shot.task] = shot
        self.open[klass] += 1
        shot.called_ns = time.time_ns()
        await self._bus.publish_acked(
            subjects.task(TENANT, self._pool, klass), self._body, message_id=shot.task
        )
        shot.accepted_ns = time.time_ns()
        return shot

    async def publish_many(self, klass: str, count: int) -> list[Shot]:
        """Publish so many at once."""
        return list(await asyncio.gather(*(self.publish(klass) for _ in range(count))))

    async def top_up(self, klass: str, count: int) -> None:
        """Publish until so many have no result."""
        if (missing := count - self.open[klass]) > 0:
            await self.publish_many(klass, missing)

    async def finished(self, shots: list[Shot], *, within_s: float) -> None:
        """Wait for the results of these.

        Raises:
            CannotMeasure: some have none in time.
        """
        until = time.monotonic() + within_s
        while missing := [shot for shot in shots if shot.result is None]:
            if time.monotonic() > until:
                raise CannotMeasure(f"{len(missing)} of {len(shots)} tasks have no result")
            await asyncio.sleep(POLL_S)

    def _hear(self, message: Message) -> None:
        shot = self.shots.get(message.subject.rpartition(".")[2])
        if shot is not None and shot.result is None:
            shot.heard_ns = time.time_ns()
            shot.result = decode(message.data, TaskResult)
            self.open[shot.klass] -= 1
