"""Keeps pools at their stock: a claim's event starts the successor, a slow look catches what no event told."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from functools import partial

from pool_manager.core.plan import (
    Clock,
    Drop,
    End,
    Start,
    Times,
    leftovers,
    look_over,
    starts,
    strays,
)
from pool_manager.core.slots import Slots
from pool_manager.core.world import World
from pool_manager.loops.hands import Hands, wait_for
from pool_manager.ports import Mint, SlotStore
from pool_manager.ports.pods import NotAllowed, Pods
from shared import logs
from shared.errors import Conflict, OutcomeUnknown, ServiceError, Unavailable
from shared.messages import Slot

log = logs.get(__name__)

TICK_S = 0.25
LOOK_EVERY_S = 0.5
CREATE_TRIES = 3
DELETE_GRACE_S = 5.0
LATER_S = 0.3
"""A reservation that found no leader is tried again after so long."""


class Refiller:
    """Plans and starts pods of all pools."""

    def __init__(self, world: World, stores: SlotStore, pods: Pods, mint: Mint) -> None:
        """Work on what `world` knows."""
        self.wanted = asyncio.Event()
        """Set when a slot is due: plan at once."""
        self.hands = Hands("refill", count=24, pending_max=4096)
        self.times = Times()
        self.asked: Counter[tuple[str, str]] = Counter()
        """(pool, `asked`, `refused` or `unanswered`) -> how often a node was asked for a pod."""
        self._world = world
        self._stores = stores
        self._pods = pods
        self._mint = mint
        self._looked_at = 0.0

    async def run(self) -> None:
        """Plan whenever something is due, until cancelled."""
        while True:
            await wait_for(self.wanted, TICK_S)
            now = time.monotonic()
            if not self._world.hears(now):
                continue
            look = now - self._looked_at >= LOOK_EVERY_S
            if look:
                self._looked_at = now
            for slots in self._world.pools.values():
                self._plan(slots, now, look=look)
            if look:
                self._end_hung(now)

    def _plan(self, slots: Slots, now: float, *, look: bool) -> None:
        pool = slots.spec.name
        busy = {key.split("/", 1)[1] for key in self.hands.busy if key.startswith(f"{pool}/")}
        facts = self._world.facts(slots, busy)
        if look:
            look_over(slots, facts, self.times, now)
            for act in leftovers(slots, facts, self.times, now):
                self._tidy(slots, act)
            if (stock := self._world.stocks.get(pool)) is not None:
                for end in stock.surplus(facts, now):
                    self._tidy(slots, end)
            for end in strays(slots, self._world.warm_workers(pool, now), facts, now):
                self._tidy(slots, end)
        clock = Clock(now, int(time.time() * 1000))
        for start in starts(slots, facts, clock):
            self._offer(slots, start)

    def _end_hung(self, now: float) -> None:
        for pod, node in self._world.hung_pods(now):
            if self._world.peers.is_first(pod, now):
                self.hands.offer(f"end:{pod}", partial(self._end, node, pod, "it says nothing"))

    def _offer(self, slots: Slots, start: Start) -> None:
        key = f"{slots.spec.name}/{start.slot.slot}"
        if not self.hands.offer(key, partial(self._start, slots, start)):
            self._world.nodes.not_asked(start.slot.pod)

    def _tidy(self, slots: Slots, act: End | Drop) -> None:
        match act:
            case End(pod, node):
                end = partial(self._end, node, pod, "nothing wants it")
                self.hands.offer(f"end:{pod}", end)
            case Drop(name, seq):
                drop = partial(self._drop, slots, name, seq)
                self.hands.offer(f"{slots.spec.name}/{name}", drop)

    async def _end(self, node: str, pod: str, why: str) -> None:
        log.info("pod.ended", pod=pod, node=node, why=why)
        await self._pods.delete(node, pod, DELETE_GRACE_S)

    async def _drop(self, slots: Slots, name: str, seq: int) -> None:
        await self._stores.drop(name, seq)
        slots.forget(name)

    async def _start(self, slots: Slots, start: Start) -> None:
        slot = start.slot
        seq = await self._reserve(slots, start)
        if seq is None:
            self._world.nodes.not_asked(slot.pod)
            return
        slots.apply(slot, seq, fate=None, now=time.monotonic())
        spec = self._mint.pod_spec(slot, start.isolation, start.lanes)
        for attempt in range(CREATE_TRIES):
            try:
                await self._pods.create(spec)
            except OutcomeUnknown as exc:  # the pod's name makes the next try harmless
                log.warning("pod.start_unanswered", pod=slot.pod, node=slot.node, attempt=attempt)
                slots.reason = str(exc)
                self.asked[slot.pool, "unanswered"] += 1
            except ServiceError as exc:
                log.warning("pod.start_refused", pod=slot.pod, node=slot.node, error=str(exc))
                now = time.monotonic()
                self._world.nodes.not_asked(slot.pod)
                if isinstance(exc, NotAllowed):
                    slots.hold(f"{slot.node}: {exc}", now)
                else:
                    slots.reason = f"{slot.node}: {exc}"
                    self._world.nodes.refused(slot.node, str(exc), now)
                slots.gone(slot.pod, now)
                self.asked[slot.pool, "refused"] += 1
                return
            else:
                self.asked[slot.pool, "asked"] += 1
                slots.created(slot.pod, time.monotonic())
                log.debug("pod.asked", pod=slot.pod, node=slot.node)
                return

    async def _reserve(self, slots: Slots, start: Start) -> int | None:
        """Write the slot's next generation; None if that is somebody else's now, or was not possible."""
        slot = start.slot
        try:
            return await self._stores.reserve(slot, start.expected_seq)
        except Conflict:
            log.debug("slot.lost", pod=slot.pod)
        except (OutcomeUnknown, Unavailable) as exc:
            log.warning("slot.unsure", pod=slot.pod, error=str(exc))
        try:
            found = await self._stores.read(slot.pool, slot.slot)
        except ServiceError:
            found = None
        if found is not None and _is_same(found[0], slot):
            return found[1]
        if found is not None:
            self._world.on_slot(*found, time.monotonic())
        if (due := slots.due.get(slot.slot)) is not None:
            due.since = time.monotonic() + LATER_S
        return None


def _is_same(found: Slot, mine: Slot) -> bool:
    return (
        found.pod == mine.pod
        and found.manager == mine.manager
        and found.reserved_ms == mine.reserved_ms
    )
