"""Holds a pool with a promise at its stock position: which slots get a pod, and which pods are too many.

Its slots are numbers, as those of a fixed stock, but how many there are changes: what is missing is counted, and the
lowest free numbers are made due. So two pool-managers that see about the same choose the same, and the compare-and-set on
the slot lets one of them start its pod.
"""

from __future__ import annotations

import heapq

from pool_manager.core.plan import End, Facts
from pool_manager.core.slots import SlotRow, Slots

FREE = ("taken", "gone")
"""A slot whose pod is one of these may have another."""


def turn_of(pool: str) -> str:
    """Return the key under which pool-managers agree on who decides a pool's stock."""
    return f"stock/{pool}"


class Supply:
    """The slots of one pool with a promise."""

    def __init__(self, slots: Slots) -> None:
        """Watch over `slots`."""
        self._slots = slots
        self._beyond = 0
        """All numbers from here on are free."""
        self._free: list[int] = []
        """Heap of numbers below that may be free."""
        slots.refill = self.fill

    @property
    def over(self) -> int:
        """Return how many pods are too many (below 0: missing), those not counted that are due already."""
        slots = self._slots
        there = slots.count["starting"] + slots.count["warm"]
        return there - slots.target - slots.waits

    @property
    def is_held(self) -> bool:
        """Whether as many pods are warm, starting or about to start as there are to be, and none is refused."""
        return self.over + len(self._slots.due) >= 0 and not self._slots.reason

    def fill(self, now: float) -> None:
        """Make due what is missing; take back what is due and not missing any more."""
        slots = self._slots
        lacking = -self.over - len(slots.due)
        for _ in range(min(lacking, slots.spec.pods_max - len(slots.due))):
            slots.want(str(self._next_free()), now)
        for name in heapq.nlargest(-lacking, slots.due, key=_number):
            del slots.due[name]
            self._give_back(name)

    def surplus(self, facts: Facts, now: float) -> list[End]:
        """Return the pods to end: those that began to start last, then warm ones. Only whoever decides the stock does."""
        slots, over = self._slots, self.over
        if over <= 0 or not facts.peers.is_settled(now):
            return []
        if not facts.peers.is_first(turn_of(slots.spec.name), now):
            return []
        chosen = sorted(
            (row for row in slots.rows.values() if _may_end(row, facts)), key=_last_first
        )[:over]
        for row in chosen:
            slots.ending(row.slot.pod, now)
        return [End(row.slot.pod, row.slot.node) for row in chosen]

    def _next_free(self) -> int:
        """Return the lowest number whose slot has no pod and is not due."""
        freed = self._slots.freed
        while freed:
            self._give_back(freed.pop())
        while self._free:
            number = heapq.heappop(self._free)
            if self._is_free(str(number)):
                return number
        while not self._is_free(str(self._beyond)):
            self._beyond += 1
        self._beyond += 1
        return self._beyond - 1

    def _is_free(self, name: str) -> bool:
        row = self._slots.rows.get(name)
        return name not in self._slots.due and (row is None or row.phase in FREE)

    def _give_back(self, name: str) -> None:
        if name.isdecimal() and int(name) < self._beyond:
            heapq.heappush(self._free, int(name))


def _number(name: str) -> int:
    return int(name) if name.isdecimal() else -1


def _may_end(row: SlotRow, facts: Facts) -> bool:
    return row.phase in ("starting", "warm") and row.slot.slot not in facts.busy


def _last_first(row: SlotRow) -> tuple[bool, float, int]:
    """Order: those that start before those that are warm, then the newest, then the highest number."""
    if row.phase == "starting":
        return (False, -row.since, -_number(row.slot.slot))
    return (True, 0.0, -_number(row.slot.slot))
