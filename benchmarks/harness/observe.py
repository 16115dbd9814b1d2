"""What a cluster says of itself while it works, with the time at which it was heard."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from shared import headers, subjects
from shared.bus import Bus, Handler, Message
from shared.messages import Slot, decode


@dataclass
class Heard:
    """First times, nanoseconds since 1970."""

    bells: dict[str, int] = field(default_factory=dict)
    """Task -> its queue message was stored, and the idle workers heard of it."""
    records: dict[str, int] = field(default_factory=dict)
    """Session -> its record was stored: a worker's claim."""
    pods: dict[str, int] = field(default_factory=dict)
    """Pod -> its name was reserved: a pool-manager wants it."""
    workers: dict[str, int] = field(default_factory=dict)
    """Worker -> its first heartbeat: it has begun to wait."""

    def _on_bell(self, message: Message) -> None:
        if task := message.headers.get(headers.MESSAGE_ID):
            self.bells.setdefault(task.rpartition(":")[2], time.time_ns())

    def _on_record(self, message: Message) -> None:
        self.records.setdefault(message.subject.rpartition(".")[2], time.time_ns())

    def _on_beat(self, message: Message) -> None:
        self.workers.setdefault(message.subject.rpartition(".")[2], time.time_ns())

    def _on_slot(self, message: Message) -> None:
        self.pods.setdefault(decode(message.data, Slot).pod, time.time_ns())


@asynccontextmanager
async def listening(bus: Bus, handlers: Mapping[str, Handler]) -> AsyncIterator[None]:
    """Hear subjects, each with its handler, until the end of the block."""
    heard = [await bus.subscribe(subject, handler) for subject, handler in handlers.items()]
    try:
        yield
    finally:
        for subscription in heard:
            await subscription.unsubscribe()


@asynccontextmanager
async def observe(bus: Bus, pool: str) -> AsyncIterator[Heard]:
    """Listen to a pool's bells, records, slots and heartbeats."""
    heard = Heard()
    handlers: dict[str, Handler] = {
        subjects.bells(pool): heard._on_bell,
        subjects.record_live(pool): heard._on_record,
        subjects.slot_live(pool): heard._on_slot,
        subjects.heartbeat(pool): heard._on_beat,
    }
    async with listening(bus, handlers):
        yield heard
