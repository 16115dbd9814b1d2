"""A pool under a replayed stream of activations: each takes one pod, which is never used again.

Only events are simulated; whatever decides how many pods there are is the policy that is given. Times are seconds.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import msgspec

from pool_manager.core.policy import Seen, Target

KLASS = "interactive"
GIVE_UP_S = 3600.0
"""What still waits so long after the last arrival waits for ever: the policy does not order."""


class Policy(Protocol):
    """What decides how many pods a pool holds; the production policies are such."""

    on_every_event: bool
    """Whether its target is held at each activation; else at its ticks alone."""

    def activated(self, klass: str, *, waited: bool) -> None:
        """An activation came, and found a warm pod or not."""
        ...

    def tick(self, seen: Seen) -> Target | None:
        """End a second; return the position to hold from now on, None: leave it as it is."""
        ...


class Load(msgspec.Struct, frozen=True):
    """What a replay is fed with."""

    name: str
    arrivals_s: Sequence[float]
    """Ascending, from 0 on."""
    leads_s: Sequence[float]
    """Start-up times, taken in turn."""
    busy_s: Sequence[float]
    """For how long each activation keeps its pod, taken in turn."""
    warm_up_s: float = 1800.0
    """What happens before counts for nothing: policies learn."""
    first: int = 0
    """Pods that are warm at the start."""
    rates_per_s: Sequence[float] | None = None
    """The rate of each second as only a seer knows it; None: no oracle can be asked."""


class Outcome(msgspec.Struct, frozen=True):
    """What a replay cost, and what it was worth."""

    activations: int
    idle_s: float
    """Idle pod-seconds per activation: warm and unclaimed, and start-ups of pods that were never used."""
    unused_start_s: float
    """The latter alone."""
    cold_share: float
    wait_p50_s: float
    wait_p99_s: float
    wait_p999_s: float
    wait_mean_s: float
    starts: float
    """Pods started per activation."""


class Pool:
    """The pods of one replay."""

    def __init__(self, load: Load) -> None:
        """Begin with the pods that are there."""
        self.load = load
        self.ready: deque[tuple[float, float]] = deque((0.0, 0.0) for _ in range(load.first))
        """(ready since, start-up it took), oldest first."""
        self.starting: dict[int, float] = {}
        """Order number -> when it was ordered, oldest first."""
        self.coming: list[tuple[float, int]] = []
        """Heap of (ready at, order number); those no longer in `starting` were cancelled."""
        self.busy: list[float] = []
        self.queue: deque[float] = deque()
        """Arrivals that wait."""
        self.waits: list[float] = []
        self.idle_s = self.unused_s = 0.0
        self.orders = 0
        self.startups_s: list[float] = []

    @property
    def position(self) -> int:
        """Warm + starting - waiting."""
        return len(self.ready) + len(self.starting) - len(self.queue)

    def order(self, count: int, now: float) -> None:
        """Start pods."""
        leads = self.load.leads_s
        for _ in range(count):
            number = self.orders
            self.orders += 1
            self.starting[number] = now
            heapq.heappush(self.coming, (now + leads[number % len(leads)], number))

    def remove(self, count: int, now: float) -> None:
        """Take pods away: of those that start the newest first, then the oldest that are warm."""
        for _ in range(count):
            if self.starting:
                _, ordered = self.starting.popitem()
                if now > self.load.warm_up_s:
                    self.unused_s += now - ordered
            elif self.ready:
                self._idled(*self.ready.popleft(), now=now, unused=True)
            else:
                return

    def comes(self, now: float) -> bool:
        """An activation arrives; return whether it has to wait."""
        if self.ready and not self.queue:
            self._idled(*self.ready.popleft(), now=now, unused=False)
            self._take(now, now)
            return False
        self.queue.append(now)
        return True

    def next_ready(self) -> float:
        """Return when the next pod is ready."""
        while self.coming and self.coming[0][1] not in self.starting:
            heapq.heappop(self.coming)
        return self.coming[0][0] if self.coming else math.inf

    def becomes_ready(self) -> None:
        """The next pod is ready: it serves who waits, or waits itself."""
        now, number = heapq.heappop(self.coming)
        took_s = now - self.starting.pop(number)
        self.startups_s.append(took_s)
        if self.queue:
            self._take(self.queue.popleft(), now)
        else:
            self.ready.append((now, took_s))

    def bound(self, now: float) -> int:
        """Return how many pods have a session."""
        while self.busy and self.busy[0] <= now:
            heapq.heappop(self.busy)
        return len(self.busy)

    def _take(self, came: float, now: float) -> None:
        busy = self.load.busy_s
        heapq.heappush(self.busy, now + busy[len(self.waits) % len(busy)])
        self.waits.append(now - came)

    def _idled(self, since: float, took_s: float, *, now: float, unused: bool) -> None:
        if now > self.load.warm_up_s:
            self.idle_s += now - max(since, self.load.warm_up_s)
            if unused:
                self.unused_s += took_s


def replay(load: Load, policy: Policy) -> Outcome:
    """Let a policy run a pool under a load."""
    pool, arrivals = Pool(load), load.arrivals_s
    index, second, held = 0, 0, Target(load.first)
    end_s = arrivals[-1] + GIVE_UP_S
    while index < len(arrivals) or pool.queue:
        until = second + 1.0
        if until > end_s:
            break
        index = _events_until(pool, policy, held, index, until)
        second += 1
        seen = Seen(
            startups_s=pool.startups_s,
            ready=len(pool.ready),
            starting=len(pool.starting),
            waiting=len(pool.queue),
            bound=pool.bound(until),
        )
        target = policy.tick(seen)
        pool.startups_s = []
        if target is not None:
            held = target
            lacking = target.position - pool.position
            if lacking > 0:
                pool.order(lacking, until)
            elif lacking < 0:
                pool.remove(-lacking, until)
    return summarize(pool, arrivals[-1])


def _events_until(pool: Pool, policy: Policy, held: Target, index: int, until: float) -> int:
    """Let everything happen that happens before `until`; return the first arrival after it."""
    arrivals = pool.load.arrivals_s
    while True:
        comes = arrivals[index] if index < len(arrivals) else math.inf
        ready = pool.next_ready()
        if min(comes, ready) >= until:
            return index
        if ready <= comes:
            pool.becomes_ready()
            continue
        index += 1
        waited = pool.comes(comes)
        policy.activated(KLASS, waited=waited)
        if policy.on_every_event and (lacking := held.position - pool.position) > 0:
            pool.order(lacking, comes)


def summarize(pool: Pool, last_s: float) -> Outcome:
    """Return what a replay cost after its warm-up."""
    load = pool.load
    skipped = sum(1 for at in load.arrivals_s if at <= load.warm_up_s)
    never = [math.inf] * len(pool.queue)
    waits = sorted((pool.waits + never)[skipped:])
    if not waits:
        raise ValueError(f"{load.name}: nothing arrives after the first {load.warm_up_s:g} s")
    for since, _ in pool.ready:
        pool.idle_s += max(0.0, last_s - max(since, load.warm_up_s))
    count = len(waits)
    return Outcome(
        activations=count,
        idle_s=(pool.idle_s + pool.unused_s) / count,
        unused_start_s=pool.unused_s / count,
        cold_share=sum(wait > 0 for wait in waits) / count,
        wait_p50_s=at_share(waits, 0.5),
        wait_p99_s=at_share(waits, 0.99),
        wait_p999_s=at_share(waits, 0.999),
        wait_mean_s=sum(waits) / count,
        starts=pool.orders / len(load.arrivals_s),
    )


def at_share(ordered: Sequence[float], share: float) -> float:
    """Return the value below which that share of the ordered values lies."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
