"""The stock of each pool with a promise, as the pool-managers agree on it.

Each of them hears the same demand and lets the policy see it. One of them, the first in rendezvous order, decides, and
writes its decision with all that it remembers into the pool's record by compare-and-set. The others take both over from
there: whoever is first after its death goes on where it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pool_manager.core.peers import Peers
from pool_manager.core.plan import End, Facts
from pool_manager.core.policy import Demand, Seen, SelfTuning, State, Target
from pool_manager.core.policy.explain import explain
from pool_manager.core.policy.self_tuning import URGENT
from pool_manager.core.slots import Slots
from pool_manager.core.supply import Supply, turn_of
from shared.messages import Message
from shared.pools import Promise
from shared.views import StockView

LEARNING_S = 900
"""For so long the declared stock is held at least: there is little else to go by."""
WRITE_EVERY_S = 5.0
"""What is remembered is written so often also where the stock stays; so much may be lost with the manager that decides."""
UNREADABLE_S = 10.0
"""A record that no manager of this version can read is written over after so long: one that can may be about to."""
MISSED_TICKS_MAX = 30
"""A manager that stood still for longer does not take the silence for want of demand."""


class StockRecord(Message, frozen=True, kw_only=True):
    """What was decided for a pool, and what it was decided by."""

    pool: str
    manager: str
    position: int
    """Warm + starting - waiting is to be so much."""
    state: State


class Stock:
    """One pool's stock."""

    def __init__(self, slots: Slots, promise: Promise, now: float) -> None:
        """Hold the declared stock until more is known."""
        self.slots = slots
        self.supply = Supply(slots)
        self.policy = SelfTuning(promise)
        self.target = Target(slots.target)
        self.seq: int | None = None
        """Of the pool's record; None: it was not read yet."""
        self.decides = False
        self.decided_by = ""
        """The manager whose decision holds."""
        self.differences: Counter[str] = Counter()
        """By what inputs did not agree, in messages."""
        self._begins_with = slots.spec.stock
        """Held at least until demand was watched for a while."""
        self._unreadable_since: float | None = None
        self._ticked_at = now
        self._written_at = float("-inf")
        self._written = -1

    def rang(self, klass: str) -> None:
        """A message came into one of the pool's lanes; to be called before the slots take it in."""
        slots = self.slots
        waited = slots.count["warm"] <= slots.waits
        self.policy.activated(klass, waited=waited, held=self.supply.is_held)

    def looked(self, backlog: int, lanes: int, rung_meanwhile: int) -> None:
        """Compare what rang and was not claimed with what the lanes hold: what only one of both says is no demand.

        Args:
            backlog: messages that are in the lanes for some time already.
            lanes: messages in the lanes, those in workers' hands included.
            rung_meanwhile: bells heard since the lanes were asked.
        """
        slots = self.slots
        most = lanes + rung_meanwhile
        if slots.waits > most:
            self.differences["bells_without_messages"] += slots.waits - most
        elif backlog > slots.waits:
            self.differences["messages_without_bells"] += backlog - slots.waits
        slots.waits = max(min(slots.waits, most), backlog)

    def tick(
        self, peers: Peers, *, bound: int, minute_of_week: int, now: float
    ) -> StockRecord | None:
        """Let as many seconds end as have gone by; return what is to be written, if this manager decides.

        Args:
            peers: whose turn it is.
            bound: pods of the pool that have a session.
            minute_of_week: UTC, from Monday 00:00.
            now: monotonic clock.
        """
        ticks = int(now - self._ticked_at)
        if ticks <= 0:
            return None
        self._ticked_at += ticks
        if ticks > MISSED_TICKS_MAX:
            ticks = 1
        slots = self.slots
        for left in range(ticks - 1, -1, -1):
            seen = Seen(
                startups_s=() if left else tuple(slots.learned_s),
                ready=slots.count["warm"],
                starting=slots.count["starting"],
                waiting=slots.waits,
                bound=bound,
                minute_of_week=minute_of_week,
            )
            self.target = self.policy.tick(seen)
        slots.learned_s.clear()
        pool = slots.spec.name
        self.decides = (
            self.seq is not None and peers.is_settled(now) and peers.is_first(turn_of(pool), now)
        )
        if not self.decides:
            return None
        self._hold(self._bounded(), now)
        if slots.target == self._written and now - self._written_at < WRITE_EVERY_S:
            return None
        return StockRecord(
            pool=pool, manager=peers.me, position=slots.target, state=self.policy.state
        )

    def wrote(self, record: StockRecord, seq: int, now: float) -> None:
        """The record is stored."""
        self.seq, self._written, self._written_at = seq, record.position, now
        self.decided_by = record.manager

    def adopt(self, record: StockRecord, seq: int, *, mine: bool, now: float) -> None:
        """Take over what was decided; what this manager itself wrote it knows."""
        if self.seq is not None and seq <= self.seq:
            return
        known, self.seq = self.seq, seq
        self._unreadable_since = None
        self.decided_by = record.manager
        if known is None or not mine:  # its own former self is another
            self.policy.state = record.state
            self._hold(record.position, now)

    def surplus(self, facts: Facts, now: float) -> list[End]:
        """Return the pods to end, if this manager decides: before the record is read, what is held is only what was declared."""
        return self.supply.surplus(facts, now) if self.decides else []

    def view(self) -> StockView:
        """Return what it is made from, for people."""
        policy, state = self.policy, self.policy.state
        demand = state.classes.get(URGENT, Demand())
        return StockView(
            explained=explain(policy, self.target, self.slots.target),
            rate_per_s=demand.slow_per_s,
            dispersion=max(demand.dispersion, 1.0),
            start_s=state.lead_s,
            z=demand.z,
            cold_share=policy.cold_share(URGENT),
            reached_cold_share=demand.cold_share,
            manager=self.decided_by,
        )

    def nothing_stored(self) -> None:
        """There is no record yet."""
        self.seq, self._unreadable_since = 0, None

    def unreadable(self, seq: int, now: float) -> None:
        """There is a record, and it can't be read: nothing is decided, and where that lasts it counts as none.

        Who then decides begins anew, but not with fewer pods than there are: the record may have known why.
        """
        self.seq = None
        if self._unreadable_since is None:
            self._unreadable_since = now
        elif now - self._unreadable_since >= UNREADABLE_S:
            count = self.slots.count
            self._begins_with = max(self._begins_with, count["warm"] + count["starting"])
            self.seq, self._unreadable_since = seq, None

    def _bounded(self) -> int:
        """Return the position that is held: the policy's, within what was declared."""
        target, spec = self.target, self.slots.spec
        position = target.position
        if self.policy.state.second < LEARNING_S:
            position = max(position, self._begins_with)
            if target.ceiling is not None:
                position = min(position, target.ceiling)
        return min(position, spec.pods_max)

    def _hold(self, position: int, now: float) -> None:
        self.slots.target = position
        self.supply.fill(now)


def stocks_of(pools: Sequence[Slots], now: float) -> dict[str, Stock]:
    """Return the stocks of the pools that have a promise."""
    return {
        slots.spec.name: Stock(slots, slots.spec.promise, now)
        for slots in pools
        if slots.spec.promise is not None
    }
