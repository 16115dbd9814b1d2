"""How many pods to keep warm, from demand, observed start-ups, and what was promised.

The stock must cover what arrives while a replacement starts: the expected number, and as many standard deviations more as
make the promised share of activations wait in the long run. It is a stock *position* (warm + starting - waiting): whoever
holds it there orders a successor at each activation. Nothing here reads a clock; `tick` is called once a second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import msgspec

from pool_manager.core.policy.demand import Z_FIRST, Demand, activated, end_second, judge
from pool_manager.core.policy.price import COLD_SHARE_MAX, cold_share_of
from pool_manager.core.policy.schedule import bounds_at
from shared.pools import Promise

URGENT, BATCH = "interactive", "batch"
TICK_S = 1.0
LEAD_FIRST_S = 5.0
"""Taken for a pod's start until one was seen."""
LEAD_MAX_S = 600.0
LEADS_REMEMBERED = 500
HELD_MIN_S = 15.0
"""The largest stock of at least so many seconds is held: a pool does not breathe with each second's chance."""


class State(msgspec.Struct):
    """All that a policy remembers. JSON of it, read again, goes on as if nothing had happened."""

    second: int = 0
    lead_s: float = LEAD_FIRST_S
    """Mean of the observed start-ups."""
    leads: int = 0
    """How many were seen."""
    classes: dict[str, Demand] = {}


class Seen(msgspec.Struct, frozen=True):
    """What one second brought, and what is there now."""

    startups_s: Sequence[float] = ()
    """How long each pod took that became warm, seconds."""
    ready: int = 0
    starting: int = 0
    waiting: int = 0
    """Activations that wait for a pod."""
    bound: int = 0
    """Pods that have a session."""
    minute_of_week: int = 0
    """UTC, from Monday 00:00."""


class Target(msgspec.Struct, frozen=True):
    """What to hold, and what it is made of."""

    position: int
    """Warm + starting - waiting is to be so much."""
    stock: int = 0
    """Of it for what is expected, all classes together, before floors and ceilings."""
    fault_reserve: int = 0
    """Of it for sessions that lose their pods at once."""
    floor: int = 0
    ceiling: int | None = None


class SelfTuning:
    """The policy of a pool with a promise."""

    on_every_event = True
    """Its position is held at each activation, not at the next tick."""

    def __init__(self, promise: Promise, state: State | None = None) -> None:
        """Begin, or go on where `state` was."""
        self.promise = promise
        self.state = State() if state is None else state
        self.target = Target(0)
        """As the last tick made it."""

    @property
    def cover_s(self) -> float:
        """For how long the stock must last: a pod's start, and the second until it is looked at again."""
        return self.state.lead_s + TICK_S

    def activated(self, klass: str, *, waited: bool, held: bool = True) -> None:
        """An activation came, and found a warm pod or not.

        Sessions that lost their pods (`recovery`) are no demand: they come with faults, and have the fault reserve. Nothing
        is learned of a stock that was not held: before the first pods could have started, or where none may start.

        Args:
            klass: its class.
            waited: whether there was no warm pod for it.
            held: whether as many pods were warm or starting as the target says.
        """
        share = self.cold_share(klass)
        if klass != URGENT and share >= COLD_SHARE_MAX:
            return  # its share is fixed: there will be no stock for it
        demand = self._demand(klass)
        activated(demand)  # also while prices allow no stock: they go by the demand that is seen
        if share >= COLD_SHARE_MAX:
            return
        if held and self.state.leads and demand.seconds > 2 * self.cover_s:
            judge(demand, self.cover_s, waited=waited, cold_share=share)

    def tick(self, seen: Seen) -> Target:
        """End a second; return what to hold from now on."""
        state = self.state
        state.second += 1
        for took_s in seen.startups_s:
            _learn_lead(state, took_s)
        stock = 0
        for klass, demand in state.classes.items():
            end_second(demand, self.cover_s)
            if self.cold_share(klass) < COLD_SHARE_MAX:
                stock += self._held(demand)
        bounds = bounds_at(self.promise, seen.minute_of_week)
        reserve = max(0, math.ceil(self.promise.fault_share * seen.bound) - stock)
        position = max(stock + reserve, bounds.floor)
        if bounds.ceiling is not None:
            position = min(position, bounds.ceiling)
        self.target = Target(
            position=position,
            stock=stock,
            fault_reserve=reserve,
            floor=bounds.floor,
            ceiling=bounds.ceiling,
        )
        return self.target

    def cold_share(self, klass: str) -> float:
        """Return the share of a class's activations that may wait for a pod; `COLD_SHARE_MAX` and above: no stock for it."""
        promise = self.promise
        if klass == BATCH:
            return promise.batch_cold_share
        if klass != URGENT:
            return 1.0
        if promise.cold_share is not None:
            return promise.cold_share
        demand = self._demand(klass)
        return cold_share_of(
            idle_cost_per_hour=promise.idle_cost_per_hour or 0.0,
            cold_cost=promise.cold_cost or 0.0,
            rate_per_s=demand.slow_per_s,
            spread=demand.spread(self.cover_s),
        )

    def stock_now(self, demand: Demand) -> int:
        """Return the stock for a class's demand of now, before what was held lately."""
        expected = demand.expected(self.cover_s)
        return max(0, math.ceil(expected + demand.z * demand.spread(self.cover_s)))

    def _held(self, demand: Demand) -> int:
        """Return the largest stock of the last seconds."""
        now, held_s = self.state.second, max(HELD_MIN_S, self.cover_s)
        recent, stock = demand.recent, self.stock_now(demand)
        while recent and recent[-1][1] <= stock:
            recent.pop()
        recent.append((now, stock))
        while recent[0][0] < now - held_s:
            recent.pop(0)
        return recent[0][1]

    def _demand(self, klass: str) -> Demand:
        """Return what is known of a class; at first its z is what chance alone asks for, so that there is less to learn."""
        found = self.state.classes.get(klass)
        if found is None:
            promise = self.promise
            share = promise.batch_cold_share if klass == BATCH else promise.cold_share
            z = Z_FIRST if share is None else NormalDist().inv_cdf(1.0 - min(share, COLD_SHARE_MAX))
            found = self.state.classes[klass] = Demand(z=z)
        return found


def _learn_lead(state: State, took_s: float) -> None:
    """Move the mean of start-ups; one that no clock can have measured counts as the nearest that it can."""
    took_s = min(max(took_s, 0.0), LEAD_MAX_S) if math.isfinite(took_s) else state.lead_s
    state.leads += 1
    state.lead_s += (took_s - state.lead_s) / min(state.leads, LEADS_REMEMBERED)
