"""Pods on local nodes, slot records, workers' control, and the other pool-managers: over the bus."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from pool_manager.core.peers import ManagerBeat
from pool_manager.core.stocks import StockRecord
from shared import logs, messages, subjects
from shared.bus import Bus
from shared.errors import InvalidMessage, NotFound, Rejected, Unavailable
from shared.ids import SHARDS
from shared.messages import Answer, CancelAnswer, CancelOrder, DeletePod, PodSpec, Slot
from shared.quota import FullTenants
from shared.shards import ShardsDown

log = logs.get(__name__)

CREATE_S = 2.0
"""A node takes a pod at once and starts it aside."""
CANCEL_S = 2.0
"""A worker answers after the commit of the cancelled task; one that takes longer may hang, and is asked again only if
it still owns the session."""


class LocalPods:
    """Implements `ports.Pods` with the nodes of the embedded cluster."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def create(self, spec: PodSpec) -> None:
        """Start a pod; asking twice under one name starts it once."""
        await self._ask(subjects.node_create(spec.node), messages.encode(spec))

    async def delete(self, node: str, pod: str, grace_s: float) -> None:
        """End a pod; one that is gone already is no error."""
        order = DeletePod(pod=pod, grace_s=grace_s)
        await self._ask(subjects.node_delete(node), messages.encode(order))

    async def _ask(self, subject: str, body: bytes) -> None:
        reply = await self._bus.request(subject, body, timeout_s=CREATE_S)
        answer = messages.decode(reply.data, Answer)
        if answer.ok:
            return
        error = answer.error
        text = error.message if error else "refused"
        if error is not None and error.code in ("unavailable", "draining", "start_refused"):
            raise Unavailable(text)
        raise Rejected(text)


class StreamSlots:
    """Implements `ports.SlotStore`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def reserve(self, slot: Slot, expected_seq: int) -> int:
        """Write a slot's record by compare-and-set; return its new sequence."""
        subject = subjects.slot(slot.pool, slot.slot)
        return await self._bus.compare_and_set(
            subject, messages.encode(slot), expected_seq=expected_seq
        )

    async def read(self, pool: str, slot: str) -> tuple[Slot, int] | None:
        """Return a slot's record and its sequence."""
        stored = await self._bus.read_last(
            subjects.slot_stream(subjects.slot_shard(slot)), subjects.slot(pool, slot)
        )
        return None if stored is None else (messages.decode(stored.data, Slot), stored.seq)

    async def drop(self, slot: str, seq: int) -> None:
        """Remove a slot's record by its sequence."""
        stream = subjects.slot_stream(subjects.slot_shard(slot))
        with suppress(NotFound):
            await self._bus.js_api(f"STREAM.MSG.DELETE.{stream}", {"seq": seq, "no_erase": True})

    async def scan(self) -> AsyncIterator[tuple[Slot, int]]:
        """Read all slot records."""
        for shard in range(SHARDS):
            async for stored in self._bus.scan(subjects.slot_stream(shard), "slot.>"):
                if stored.subject.endswith(f".{subjects.STOCK}"):
                    continue
                yield messages.decode(stored.data, Slot), stored.seq


class StreamStocks:
    """Implements `ports.StockStore`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def write(self, record: StockRecord, expected_seq: int) -> int:
        """Write what was decided by compare-and-set; return its sequence."""
        subject = subjects.slot(record.pool, subjects.STOCK)
        return await self._bus.compare_and_set(
            subject, messages.encode(record), expected_seq=expected_seq
        )

    async def read(self, pool: str) -> tuple[StockRecord | None, int] | None:
        """Return what was decided last, and its sequence; None in its place: what is stored there can't be read."""
        stream = subjects.slot_stream(subjects.slot_shard(subjects.STOCK))
        stored = await self._bus.read_last(stream, subjects.slot(pool, subjects.STOCK))
        if stored is None:
            return None
        try:
            return messages.decode(stored.data, StockRecord), stored.seq
        except InvalidMessage as exc:
            log.info("stock.unreadable", pool=pool, seq=stored.seq, error=str(exc))
            return None, stored.seq


class BusWorkers:
    """Implements `ports.Workers`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def cancel(self, worker: str, order: CancelOrder) -> CancelAnswer:
        """Ask the owner to end a task."""
        reply = await self._bus.request(
            subjects.control(worker), messages.encode(order), timeout_s=CANCEL_S
        )
        return messages.decode(reply.data, CancelAnswer)


class BusVoice:
    """Implements `ports.Voice`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def beat(self, beat: ManagerBeat) -> None:
        """Say to the other pool-managers that it lives."""
        await self._bus.publish(subjects.manager_heartbeat(beat.manager), messages.encode(beat))

    async def full(self, said: FullTenants) -> None:
        """Tell workers which tenants get no new session."""
        await self._bus.publish(subjects.FULL, messages.encode(said))

    async def say_down(self, shards: tuple[int, ...]) -> None:
        """Say to all, clients too, which state shards have no leader."""
        await self._bus.publish(subjects.SHARDS_DOWN, messages.encode(ShardsDown(down=shards)))

    async def answer(self, reply: str, body: bytes) -> None:
        """Answer a request."""
        await self._bus.publish(reply, body)
