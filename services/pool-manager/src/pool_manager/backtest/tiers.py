"""Two tiers of pods under a replayed load: warm ones are promoted from paused ones, paused ones are started.

Both tiers are run by the production policy: what is a promotion for the upper one is an activation for the lower.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence

import msgspec

from pool_manager.backtest.replay import KLASS, Load, at_share
from pool_manager.core.policy import Seen, SelfTuning
from shared.pools import Promise

PAUSED_PRICE = 0.15
"""What a paused pod costs, of a warm one: an assumption (frozen, its memory reclaimed, its request shrunk)."""


class TierOutcome(msgspec.Struct, frozen=True):
    """What two tiers cost per activation, in pod-seconds."""

    warm_idle_s: float
    paused_idle_s: float
    unused_start_s: float
    """Start-ups of pods that were cancelled or removed unused, as long as they took."""
    cold_share: float
    wait_p999_s: float

    @property
    def cost_s(self) -> float:
        """Pod-seconds of a warm pod that all of it is worth."""
        return self.warm_idle_s + PAUSED_PRICE * self.paused_idle_s + self.unused_start_s


class _Tiers:
    """The pods of one replay."""

    def __init__(self, load: Load, promote_s: Sequence[float], promise: Promise) -> None:
        self.load = load
        self._promote_s = promote_s
        self.upper, self.lower = SelfTuning(promise), SelfTuning(promise)
        self.warm: deque[float] = deque()
        self.waking: list[tuple[float, float]] = []
        """Heap of (warm at, promotion took)."""
        self.paused: deque[tuple[float, float]] = deque()
        """(since, start took)"""
        self.making: dict[int, float] = {}
        self.coming: list[tuple[float, int]] = []
        self.owed = 0
        """Promotions that found no paused pod."""
        self.queue: deque[float] = deque()
        self.waits: list[float] = []
        self.warm_s = self.paused_s = self.unused_s = 0.0
        self.promotions = self.starts = 0
        self.promoted_s: list[float] = []
        self.started_s: list[float] = []

    def next_event(self) -> float:
        """Return when something is ready."""
        while self.coming and self.coming[0][1] not in self.making:
            heapq.heappop(self.coming)
        made = self.coming[0][0] if self.coming else math.inf
        return min(made, self.waking[0][0] if self.waking else math.inf)

    def event(self) -> None:
        """Let the next pod be ready."""
        at = self.next_event()
        if self.waking and self.waking[0][0] <= at:
            _, took = heapq.heappop(self.waking)
            self.promoted_s.append(took)
            if self.queue:
                self.waits.append(at - self.queue.popleft())
            else:
                self.warm.append(at)
            return
        _, number = heapq.heappop(self.coming)
        took = at - self.making.pop(number)
        self.started_s.append(took)
        if self.owed:
            self.owed -= 1
            self._wake(at)
        else:
            self.paused.append((at, took))

    def comes(self, now: float) -> None:
        """An activation arrives."""
        waited = not self.warm or bool(self.queue)
        self.upper.activated(KLASS, waited=waited)
        if waited:
            self.queue.append(now)
        else:
            self.warm_s += self._counted(self.warm.popleft(), now)
            self.waits.append(0.0)
        self.order(now)

    def order(self, now: float) -> None:
        """Bring both tiers up to their positions."""
        upper = len(self.warm) + len(self.waking) + self.owed - len(self.queue)
        for _ in range(self.upper.target.position - upper):
            self.lower.activated(KLASS, waited=not self.paused)
            if self.paused:
                self.paused_s += self._counted(self.paused.popleft()[0], now)
                self._wake(now)
            else:
                self.owed += 1
        lower = len(self.paused) + len(self.making) - self.owed
        lacking = max(self.lower.target.position - lower, self.owed - len(self.making))
        for _ in range(lacking):
            lead = self.load.leads_s[self.starts % len(self.load.leads_s)]
            self.making[self.starts] = now
            heapq.heappush(self.coming, (now + lead, self.starts))
            self.starts += 1

    def tick(self, now: float) -> None:
        """End a second: new positions, and what is too much goes down a tier."""
        self.upper.tick(Seen(startups_s=self.promoted_s))
        self.lower.tick(Seen(startups_s=self.started_s))
        self.promoted_s, self.started_s = [], []
        over = len(self.warm) + len(self.waking) + self.owed - len(self.queue)
        for _ in range(min(over - self.upper.target.position, len(self.warm))):
            self.warm_s += self._counted(self.warm.popleft(), now)
            self.paused.append((now, 0.0))
        over = len(self.paused) + len(self.making) - self.owed - self.lower.target.position
        for _ in range(over):
            if len(self.making) > self.owed:
                _, ordered = self.making.popitem()
                self.unused_s += self._counted(ordered, now)
            elif self.paused:
                since, took = self.paused.popleft()
                self.paused_s += self._counted(since, now)
                self.unused_s += took if now > self.load.warm_up_s else 0.0
        self.order(now)

    def _wake(self, now: float) -> None:
        took = self._promote_s[self.promotions % len(self._promote_s)]
        self.promotions += 1
        heapq.heappush(self.waking, (now + took, took))

    def _counted(self, since: float, now: float) -> float:
        return max(0.0, now - max(since, self.load.warm_up_s))


def replay_tiers(load: Load, promote_s: Sequence[float], promise: Promise) -> TierOutcome:
    """Run two tiers under a load; its `leads_s` are those of the lower tier.

    Args:
        load: what arrives.
        promote_s: how long promotions take, taken in turn.
        promise: of both tiers.
    """
    tiers = _Tiers(load, promote_s, promise)
    arrivals, index, second = load.arrivals_s, 0, 0
    while index < len(arrivals) or tiers.queue:
        second += 1
        while True:
            comes = arrivals[index] if index < len(arrivals) else math.inf
            ready = tiers.next_event()
            if min(comes, ready) >= second:
                break
            if ready <= comes:
                tiers.event()
            else:
                index += 1
                tiers.comes(comes)
        tiers.tick(float(second))
    return _summary(tiers)


def _summary(tiers: _Tiers) -> TierOutcome:
    skipped = sum(1 for at in tiers.load.arrivals_s if at <= tiers.load.warm_up_s)
    waits = sorted(tiers.waits[skipped:])
    count = len(waits)
    return TierOutcome(
        warm_idle_s=tiers.warm_s / count,
        paused_idle_s=tiers.paused_s / count,
        unused_start_s=tiers.unused_s / count,
        cold_share=sum(wait > 0 for wait in waits) / count,
        wait_p999_s=at_share(waits, 0.999),
    )
