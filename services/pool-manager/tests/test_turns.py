"""Whose turn it is among the classes: recovery before everything, batch never less than its share."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool_manager.core.nodes import Nodes
from pool_manager.core.peers import Peers
from pool_manager.core.plan import Clock, Facts, Start, starts
from pool_manager.core.slots import Slots
from pool_manager.core.turns import AHEAD_MAX, Turns
from shared.classes import CLASSES
from shared.ids import SHARDS
from shared.messages import NodeBeat
from shared.pools import PoolSpec


def work_off(turns: Turns, waiting: Counter[str], count: int, at_once: int = 1) -> list[str]:
    """Let free workers take what is first of what waits, `at_once` of them before any claim is heard."""
    taken: list[str] = []
    while len(taken) < count and waiting.total():
        took = []
        for _ in range(min(at_once, waiting.total())):
            klass = next(klass for klass, _ in turns.lanes() if waiting[klass])
            waiting[klass] -= 1
            took.append(klass)
        for klass in took:
            turns.started(klass)
        taken += took
    return taken


@given(every=st.integers(2, 20), count=st.integers(40, 200), at_once=st.integers(1, 8))
def test_batch_has_its_share_of_the_starts_while_both_wait(
    every: int, count: int, at_once: int
) -> None:
    """At least one in k, whoever decides at the same time; and not much more when they are few."""
    taken = work_off(Turns(every), Counter(interactive=1000, batch=1000), count, at_once)

    batch = taken.count("batch")
    assert batch >= len(taken) // every - at_once
    if at_once <= AHEAD_MAX:
        assert batch <= 1.1 * len(taken) / every + at_once + 1


@given(before=st.lists(st.sampled_from(CLASSES), max_size=50))
def test_a_session_that_lost_its_worker_goes_before_everything(before: list[str]) -> None:
    """Also when it is the turn of batch."""
    turns = Turns(3)
    for klass in before:
        turns.started(klass)

    taken = work_off(turns, Counter(recovery=3, interactive=5, batch=5), 13)

    assert taken[:3] == ["recovery"] * 3


def test_nothing_piles_up_for_a_batch_that_was_not_there() -> None:
    """After a long time without any, batch gets a turn or two, not all that it might have had."""
    turns = Turns(10)
    work_off(turns, Counter(interactive=1000), 1000)

    taken = work_off(turns, Counter(interactive=20, batch=20), 10)

    assert taken.count("batch") <= 2


def test_each_shard_is_asked_first_in_its_turn() -> None:
    """Else what lies in the last one would wait for all the others."""
    turns = Turns(10)

    assert {turns.lanes()[0][1] for _ in range(SHARDS)} == set(range(SHARDS))
    assert sorted(turns.lanes()) == sorted((k, s) for k in CLASSES for s in range(SHARDS))


# --- what a new pod is told ------------------------------------------------------------------------------------------


def planned(slots: Slots, pods_max: int = 64) -> list[Start]:
    """Return what is started on one node now."""
    facts = Facts(Peers("pm-1"), Nodes(), bound=0)
    beat = NodeBeat(node="n", started_ms=1, capacity=pods_max, isolation={"namespace": ""})
    facts.nodes.heard(beat, 100.0)
    return starts(slots, facts, Clock(100.0, 100_000))


def test_a_pod_that_comes_to_waiting_messages_is_told_to_ask_for_them() -> None:
    """The most urgent first: else the next bell, of whatever class, would be the first that it hears."""
    slots = Slots(PoolSpec(name="p", stock=1))
    slots.want("0", 100.0)
    (calm,) = planned(slots)
    assert calm.lanes == ()

    slots.rang("interactive")
    (pressed,) = planned(slots)
    assert [klass for klass, _ in pressed.lanes[::SHARDS]] == list(CLASSES)


def test_a_standing_backlog_is_not_forgotten() -> None:
    """What rang lately is halved, since it may have ended elsewhere; what was seen to wait is not."""
    slots = Slots(PoolSpec(name="p", stock=1))
    for _ in range(5):
        slots.stands(3)
    assert slots.is_starved
    for _ in range(5):
        slots.stands(0)
    assert not slots.is_starved


@pytest.mark.parametrize("pods_max", [2, 10])
def test_pods_on_demand_go_to_urgent_messages_first(pods_max: int) -> None:
    """Where there is no room for all; where there is, each pod is told its own message's lane alone."""
    slots = Slots(PoolSpec(name="p", stock=0, pods_max=pods_max))
    for number in range(3):
        slots.demand(f"d0-{number}", ("batch", 0), again=False, now=99.0)
    slots.demand("d1-9", ("interactive", 1), again=False, now=99.0)

    begun = planned(slots)

    assert len(begun) == min(pods_max, 4)
    assert begun[0].slot.slot == "d1-9"
    if pods_max < 4:
        assert [klass for klass, _ in begun[1].lanes[::SHARDS]] == list(CLASSES)
    else:
        assert begun[1].lanes == (("batch", 0),)
