"""Slots of one pool, step by step: what the model of two pool-managers does not reach."""

from __future__ import annotations

import msgspec
import pytest

from pool_manager.core.nodes import Nodes
from pool_manager.core.pace import BACK_OFF_S, STEADY_S
from pool_manager.core.peers import Peers
from pool_manager.core.plan import (
    Clock,
    Drop,
    End,
    Facts,
    Start,
    Times,
    leftovers,
    look_over,
    starts,
    strays,
)
from pool_manager.core.slots import KEPT_S, SILENT_S, Slots
from shared.messages import NodeBeat
from shared.pools import PoolSpec

NOW = 100.0
TIMES = Times(start_s=10, spare_s=10)


@pytest.fixture
def facts() -> Facts:
    """One pool-manager, one node."""
    made = Facts(Peers("pm-1"), Nodes(), bound=0)
    node_says(made, NOW)
    return made


def node_says(facts: Facts, now: float, *pods: str) -> None:
    """The node lives, with these pods."""
    beat = NodeBeat(node="n", started_ms=1, pods=pods, capacity=50, isolation={"namespace": ""})
    facts.nodes.heard(beat, now)


def plan(slots: Slots, facts: Facts, now: float = NOW) -> list[Start]:
    """Look over the pool and return what is to be started."""
    look_over(slots, facts, TIMES, now)
    return starts(slots, facts, Clock(now, int(now * 1000)))


def filled(facts: Facts, *, stock: int = 1, warm: bool = True) -> Slots:
    """Return a pool whose slots have their first pods."""
    slots = Slots(PoolSpec(name="p", stock=stock))
    for seq, start in enumerate(plan(slots, facts), start=1):
        slots.apply(start.slot, seq, fate=None, now=NOW)
        if warm:
            slots.heard(start.slot.pod, bound=False, now=NOW)
    return slots


def test_a_pod_that_never_comes_is_replaced_after_its_bound(facts: Facts) -> None:
    """Under the next name: the first one may still come."""
    slots = filled(facts, warm=False)

    node_says(facts, NOW + 9)
    assert plan(slots, facts, NOW + 9) == []
    node_says(facts, NOW + 11)
    assert (
        plan(slots, facts, NOW + 11) == []
    )  # seen to be missing: a failed start, tried again a little later
    (start,) = plan(slots, facts, NOW + 11.2)

    assert (start.slot.pod, start.expected_seq) == ("p-0-2", 1)


def test_starts_that_fail_are_tried_again_ever_more_slowly(facts: Facts) -> None:
    """A node that refuses everything is not asked a thousand times a second."""
    slots = filled(facts, warm=False)
    waits = []
    now = NOW
    for seq in range(2, 12):
        slots.gone(f"p-0-{seq - 1}", now)
        began = now
        while not (planned := plan(slots, facts, now)):
            now += 0.05
            node_says(facts, now)
        waits.append(now - began)
        slots.apply(planned[0].slot, seq, fate=None, now=now)

    assert waits == sorted(waits)
    assert waits[0] < 0.2
    assert waits[-1] == pytest.approx(BACK_OFF_S[1], abs=0.2)
    slots.heard("p-0-11", bound=False, now=now)
    slots.taken("p-0-11", now)
    assert len(plan(slots, facts, now)) == 1  # it came up: forgiven


def test_pods_that_end_right_after_they_came_up_are_replaced_ever_more_slowly(facts: Facts) -> None:
    """A sandbox that dies as soon as it is there would be started for ever; one that has stood for a while is forgiven."""
    slots, now, waits = filled(facts), NOW, []
    for seq in range(2, 8):
        slots.gone(f"p-0-{seq - 1}", now + 1)
        began = now = now + 1
        while not (planned := plan(slots, facts, now)):
            now += 0.05
            node_says(facts, now)
        waits.append(now - began)
        slots.apply(planned[0].slot, seq, fate=None, now=now)
        slots.heard(planned[0].slot.pod, bound=False, now=now)
    assert waits == sorted(waits)
    assert waits[-1] > 10 * waits[0]

    slots.heard("p-0-7", bound=False, now=now + STEADY_S + 1)
    slots.gone("p-0-7", now + STEADY_S + 2)
    node_says(facts, now + STEADY_S + 2)
    assert len(plan(slots, facts, now + STEADY_S + 2)) == 1


def test_a_warm_pod_that_falls_silent_is_replaced(facts: Facts) -> None:
    """Its node may be gone, and nobody says so."""
    slots = filled(facts)
    other = NodeBeat(node="n2", started_ms=1, capacity=50, isolation={"namespace": ""})
    facts.nodes.heard(other, NOW + SILENT_S + 0.1)

    (start,) = plan(slots, facts, NOW + SILENT_S + 0.1)

    assert (start.slot.pod, start.slot.node) == ("p-0-2", "n2")


def test_the_name_of_a_dead_pool_manager_is_not_waited_for(facts: Facts) -> None:
    """It reserved, and died before it asked the node."""
    mine = filled(facts, warm=False)
    reserved = mine.rows["0"].slot
    others = Slots(mine.spec)
    after = Facts(Peers("pm-2"), facts.nodes, bound=0)
    others.apply(reserved, 1, fate=None, now=NOW)

    assert plan(others, after, NOW + 1) == []
    node_says(facts, NOW + 2.1)
    assert plan(others, after, NOW + 2.1) == []
    (start,) = plan(others, after, NOW + 2.3)

    assert start.slot.pod == "p-0-2"


def test_pods_of_a_nodes_former_process_are_replaced_at_once(facts: Facts) -> None:
    """The whole cluster was started anew: the slots' records are there, their pods are not."""
    before = filled(facts, warm=False)
    slots = Slots(before.spec)
    slots.apply(before.rows["0"].slot, 1, fate=None, now=NOW + 5)
    after = Facts(Peers("pm-1"), Nodes(), bound=0)
    beat = NodeBeat(
        node="n",
        started_ms=int((NOW + 4) * 1000),
        capacity=50,
        isolation={"namespace": ""},
    )
    after.nodes.heard(beat, NOW + 5)

    plan(slots, after, NOW + 5)
    (start,) = plan(slots, after, NOW + 5.2)

    assert start.slot.pod == "p-0-2"


def test_a_restarted_pool_manager_waits_little_for_what_its_former_self_had_in_hand(
    facts: Facts,
) -> None:
    """It reserved, and was killed before it asked the node."""
    slots = filled(facts, warm=False)
    later = msgspec.structs.replace(facts, started_ms=int((NOW + 0.5) * 1000))

    assert plan(slots, later, NOW + 1) == []
    node_says(facts, NOW + 2.1)
    assert plan(slots, later, NOW + 2.1) == []
    (start,) = plan(slots, later, NOW + 2.3)

    assert start.slot.pod == "p-0-2"


def test_a_smaller_stock_ends_its_surplus_when_warm_and_forgets_it_when_gone(
    facts: Facts,
) -> None:
    """The declaration was changed from 2 to 1."""
    before = filled(facts, stock=2)
    slots = Slots(PoolSpec(name="p", stock=1))
    for row in before.rows.values():
        slots.apply(row.slot, row.seq, fate="warm", now=NOW)

    assert leftovers(slots, facts, TIMES, NOW + 9) == []
    assert leftovers(slots, facts, TIMES, NOW + 11) == [End("p-1-1", "n")]
    slots.gone("p-1-1", NOW + 12)
    assert plan(slots, facts, NOW) == []
    assert leftovers(slots, facts, TIMES, NOW + 13 + KEPT_S) == [Drop("1", 2)]


def test_a_warm_pod_that_no_slot_names_is_ended(facts: Facts) -> None:
    """It was given up as lost, replaced, and came after all."""
    slots = filled(facts)
    warm = [("p-0-1", "n", NOW), ("p-0-0", "n", NOW)]

    assert strays(slots, warm, facts, NOW + 1) == []
    assert strays(slots, warm, facts, NOW + 3) == [End("p-0-0", "n")]


def test_a_message_gets_one_pod_until_it_is_missed_again(facts: Facts) -> None:
    """A bell heard twice starts nothing; a message that still waits after its pod's end gets another."""
    slots = Slots(PoolSpec(name="p", stock=0))
    slots.demand("d1-77", ("batch", 1), again=False, now=NOW)
    (start,) = plan(slots, facts)
    assert (start.lanes, start.slot.pod) == ((("batch", 1),), "p-d1-77-100")
    slots.apply(start.slot, 1, fate=None, now=NOW)

    slots.demand("d1-77", ("batch", 1), again=True, now=NOW)
    assert plan(slots, facts) == []
    slots.gone(start.slot.pod, NOW)
    slots.demand("d1-77", ("batch", 1), again=False, now=NOW)
    assert plan(slots, facts) == []
    slots.demand("d1-77", ("batch", 1), again=True, now=NOW)
    (second,) = plan(slots, facts, NOW + 1)

    assert (second.slot.pod, second.expected_seq) == ("p-d1-77-101", 1)


def test_what_is_known_of_a_pod_before_its_slot_counts(facts: Facts) -> None:
    """The record that names it as owner may come before the slot's own record."""
    slots = Slots(PoolSpec(name="p", stock=1))
    (start,) = plan(slots, facts)

    slots.apply(start.slot, 1, fate="taken", now=NOW)

    assert [s.slot.pod for s in plan(slots, facts)] == ["p-0-2"]


def test_a_pool_is_starved_when_messages_ring_and_nobody_is_there(facts: Facts) -> None:
    """Then the next worker that comes hears a bell of its own."""
    slots = filled(facts)
    assert not slots.is_starved
    slots.rang("interactive")
    slots.rang("interactive")
    assert slots.is_starved
    slots.taken("p-0-1", NOW)
    assert slots.is_starved
    slots.unclaimed = 0
    assert not slots.is_starved
