"""The stock of a pool with a promise: who decides, what is ordered, what is taken back, and what a successor takes over."""

from __future__ import annotations

import msgspec
import pytest

from pool_manager.core.nodes import Nodes
from pool_manager.core.peers import ManagerBeat, Peers
from pool_manager.core.plan import Clock, End, Facts, Times, leftovers, look_over, starts
from pool_manager.core.policy import SelfTuning
from pool_manager.core.slots import ENDING_S, Slots
from pool_manager.core.stocks import LEARNING_S, UNREADABLE_S, Stock, StockRecord
from pool_manager.core.supply import turn_of
from shared.messages import NodeBeat
from shared.pools import PoolSpec, Promise

NOW = 1000.0
PROMISE = Promise(cold_share=0.05)


class Pool:
    """One pool as one manager sees it, whose orders are carried out at once."""

    def __init__(self, me: str = "pm-1", stock: int = 0, promise: Promise = PROMISE) -> None:
        """Begin at `NOW`, without pods."""
        spec = PoolSpec(name="p", stock=stock, pods_max=50, promise=promise)
        self.slots = Slots(spec)
        self.stock = Stock(self.slots, promise, NOW)
        self.stock.nothing_stored()
        self.peers, self.nodes = Peers(me), Nodes()
        self.now, self.seq = NOW, 0

    @property
    def facts(self) -> Facts:
        """What its plans look at."""
        beat = NodeBeat(
            node="n",
            started_ms=1,
            pods=tuple(self.slots.pods()),
            capacity=500,
            isolation={"namespace": ""},
        )
        self.nodes.heard(beat, self.now)
        return Facts(self.peers, self.nodes, bound=0)

    def order(self) -> list[str]:
        """Reserve what is due; return the names of the new pods."""
        found = starts(self.slots, self.facts, Clock(self.now, int(self.now * 1000)))
        for start in found:
            self.seq += 1
            self.slots.apply(start.slot, self.seq, fate=None, now=self.now)
        return [start.slot.pod for start in found]

    def warm(self, pods: list[str]) -> None:
        """These pods' workers are heard."""
        for pod in pods:
            self.slots.heard(pod, bound=False, now=self.now)

    def tick(self, seconds: int = 1) -> StockRecord | None:
        """Let seconds go by; return what the last one wants written."""
        record = None
        for _ in range(seconds):
            self.now += 1
            record = self.stock.tick(self.peers, bound=0, minute_of_week=0, now=self.now)
        return record

    def ring(self, count: int = 1) -> None:
        """Messages come into a lane."""
        for _ in range(count):
            self.stock.rang("interactive")
            self.slots.rang("interactive")
            self.stock.supply.fill(self.now)


@pytest.fixture
def pool() -> Pool:
    """A pool with three warm pods."""
    made = Pool(stock=3)
    made.tick()
    made.warm(made.order())
    return made


def test_the_declared_stock_is_held_until_demand_was_watched() -> None:
    """A new pool has something to begin with; a quarter of an hour later the policy alone decides."""
    pool = Pool(stock=7)
    pool.tick()
    assert len(pool.order()) == 7

    pool.tick(LEARNING_S + 20)
    assert pool.slots.target < 7


def test_a_message_orders_its_successor_at_once_and_the_claim_orders_none(pool: Pool) -> None:
    """Position = warm + starting - waiting falls when the message rings, and stays when a warm worker takes it."""
    pool.ring()
    (ordered,) = pool.order()
    pool.slots.taken("p-0-1", pool.now)

    assert ordered == "p-3-1"
    assert pool.order() == []
    assert pool.slots.waits == 0


def test_whoever_waits_gets_a_pod_beside_the_stock(pool: Pool) -> None:
    """Ten at once on three warm pods: ten are ordered, so that three are there when all are served."""
    pool.ring(10)

    assert len(pool.order()) == 10


def test_a_slot_whose_pod_was_taken_is_used_again(pool: Pool) -> None:
    """The lowest free number, under its next generation: names never come twice, and slots do not grow in number."""
    pool.slots.taken("p-1-1", pool.now)

    assert pool.order() == ["p-1-2"]


def test_what_is_too_much_is_cancelled_newest_first_and_only_by_who_decides(pool: Pool) -> None:
    """Those that start go before those that are warm; a manager that does not decide ends nothing."""
    pool.ring(2)
    newest = pool.order()
    pool.slots.waits = 0  # both were cancelled by their client
    other = ManagerBeat(manager="pm-2")
    pool.peers.heard(other, pool.now)
    ended = pool.stock.surplus(pool.facts, pool.now)
    if not pool.peers.is_first(turn_of("p"), pool.now):
        assert ended == []
        pool.peers.heard(msgspec.structs.replace(other, leaving=True), pool.now)
        ended = pool.stock.surplus(pool.facts, pool.now)

    assert sorted(end.pod for end in ended) == sorted(newest)
    assert pool.stock.surplus(pool.facts, pool.now) == []  # they count no more
    assert leftovers(pool.slots, pool.facts, Times(), pool.now + 100) == []


def test_a_manager_that_has_not_read_the_record_ends_no_pod(pool: Pool) -> None:
    """It was started anew, and finds more pods than were declared: how many there are to be it does not know yet."""
    successor = Pool(stock=1)
    successor.stock.seq = None
    for row in pool.slots.rows.values():
        successor.slots.apply(row.slot, row.seq, fate="warm", now=successor.now)
    successor.tick()

    assert successor.stock.supply.over == 2
    assert successor.stock.surplus(successor.facts, successor.now) == []

    successor.stock.nothing_stored()
    successor.tick()
    assert len(successor.stock.surplus(successor.facts, successor.now)) == 2


def test_a_record_that_nobody_can_read_is_written_over_in_the_end(pool: Pool) -> None:
    """First it is left alone, for a newer manager may be at work; then it counts as none, and no pod is ended for that."""
    successor = Pool(stock=1)
    successor.stock.seq = None
    for row in pool.slots.rows.values():
        successor.slots.apply(row.slot, row.seq, fate="warm", now=successor.now)
    for _ in range(int(UNREADABLE_S)):
        successor.stock.unreadable(7, successor.now)
        assert successor.tick() is None
    assert not successor.stock.decides

    successor.stock.unreadable(7, successor.now)
    record = successor.tick()

    assert successor.stock.seq == 7
    assert record is not None
    assert record.position == 3
    assert successor.stock.surplus(successor.facts, successor.now) == []


def test_a_pod_that_was_to_end_and_did_not_counts_again(pool: Pool) -> None:
    """Its node did not hear the order: the next look ends it anew instead of forgetting it."""
    pool.stock.adopt(StockRecord(pool="p", manager="x", position=2, state=pool.stock.policy.state), 9, mine=False, now=pool.now)  # fmt: skip
    (end,) = pool.stock.surplus(pool.facts, pool.now)
    assert pool.slots.count["warm"] == 2

    pool.now += ENDING_S + 1
    pool.warm([end.pod])

    assert pool.slots.count["warm"] == 3
    assert pool.stock.surplus(pool.facts, pool.now) == [End(end.pod, "n")]


def test_a_pod_that_was_to_end_and_is_gone_makes_no_failure(pool: Pool) -> None:
    """Its slot is free at once, without the wait after a start that failed."""
    pool.ring(1)
    (pod,) = pool.order()
    pool.slots.waits = 0
    assert len(pool.stock.surplus(pool.facts, pool.now)) == 1
    pool.slots.gone(pod, pool.now)
    pool.ring(1)

    assert pool.order() == ["p-3-2"]


def test_a_successor_goes_on_from_the_record_and_holds_what_was_decided() -> None:
    """The first manager dies in mid-burst: the second has its rates, its z and its position at once, and orders no pod twice."""
    first, second = Pool("pm-1"), Pool("pm-2")
    first.peers.heard(ManagerBeat(manager="nobody", leaving=True), NOW)
    for _ in range(300):
        first.ring(3)
        first.order()
        first.slots.waits = 0
        first.slots.learned_s.append(4.0)
        first.tick()
    record = first.tick(6)
    assert record is not None
    stored = msgspec.json.decode(msgspec.json.encode(record), type=StockRecord)
    for row in first.slots.rows.values():
        second.slots.apply(row.slot, row.seq, fate="warm", now=second.now)

    second.stock.adopt(stored, 5, mine=False, now=second.now)

    assert second.slots.target == first.slots.target > 5
    assert second.stock.policy.state == first.stock.policy.state
    assert second.order() == []
    over = second.slots.count["warm"] - second.slots.target
    assert over <= 0.1 * second.slots.target + 1


def test_one_manager_decides_and_the_other_takes_over_when_it_falls_silent() -> None:
    """Both see the same; who is first writes. The other's own tick changes nothing that is held."""
    one, two = Pool("pm-1"), Pool("pm-2")
    one.peers.heard(ManagerBeat(manager="pm-2"), NOW)
    two.peers.heard(ManagerBeat(manager="pm-1"), NOW)
    wrote = [one.tick(), two.tick()]

    assert [record is None for record in wrote].count(True) == 1
    waiting = one if wrote[0] is None else two
    waiting.tick(2)  # nothing is heard of the other for longer than 1.5 s
    assert waiting.stock.decides


def test_its_own_former_self_is_another_manager() -> None:
    """A manager that was started anew under its name reads its own record, and takes the state from it."""
    pool = Pool()
    pool.stock.seq = None
    record = StockRecord(pool="p", manager="pm-1", position=9, state=Pool().stock.policy.state)
    record.state.lead_s = 33.0

    pool.stock.adopt(record, 4, mine=True, now=pool.now)

    assert pool.slots.target == 9
    assert pool.stock.policy.state.lead_s == 33.0


def test_bells_without_messages_are_an_alarm_and_order_nothing(pool: Pool) -> None:
    """Two sources tell what waits. What only the bells say is taken back at the next look, and counted."""
    pool.ring(4)
    assert len(pool.slots.due) == 4
    pool.stock.looked(backlog=1, lanes=1, rung_meanwhile=0)
    pool.stock.supply.fill(pool.now)
    assert set(pool.slots.due) == {"3"}  # the lowest number stays
    pool.stock.looked(backlog=0, lanes=0, rung_meanwhile=0)
    pool.stock.supply.fill(pool.now)

    assert pool.slots.due == {}
    assert pool.stock.differences["bells_without_messages"] == 3 + 1


def test_messages_that_rang_while_nobody_heard_get_pods(pool: Pool) -> None:
    """What stands in the lanes for some time is demand, whatever was heard of it."""
    pool.stock.looked(backlog=5, lanes=6, rung_meanwhile=0)
    pool.stock.supply.fill(pool.now)

    assert len(pool.order()) == 5
    assert pool.stock.differences["messages_without_bells"] == 5


def test_nothing_is_learned_while_pods_may_not_start() -> None:
    """A quota keeps the stock empty for an hour: z stays, or the pool would be flooded when it is lifted."""
    pool = Pool()
    pool.tick(200)
    pool.warm(pool.order())
    pool.slots.learned_s.append(1.0)
    pool.tick(5)
    before = pool.stock.policy.state.classes.get("interactive")
    for _ in range(100):
        pool.ring(5)
        pool.slots.hold("quota", pool.now)
        assert pool.order() == []
        pool.tick()
    demand = pool.stock.policy.state.classes["interactive"]

    assert before is None
    assert demand.z == SelfTuning(PROMISE)._demand("interactive").z
    assert pool.slots.target <= 50


def test_the_caps_bound_what_is_ordered_however_many_wait() -> None:
    """`pods_max` holds for the pool, `starting_max` for what starts at once."""
    pool = Pool()
    pool.ring(5000)
    look_over(pool.slots, pool.facts, Times(), pool.now)

    assert len(pool.slots.due) <= 50
    assert len(pool.order()) <= 50
