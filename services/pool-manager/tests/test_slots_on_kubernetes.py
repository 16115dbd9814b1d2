"""What is different for slots whose pods Kubernetes runs: they may wait long for their start, or not be allowed at all."""

from __future__ import annotations

import msgspec
import pytest

from pool_manager.core.nodes import Nodes
from pool_manager.core.peers import Peers
from pool_manager.core.plan import Clock, Facts, Start, Times, look_over, starts
from pool_manager.core.slots import HOLD_S, Slots
from shared.messages import NodeBeat
from shared.pools import PoolSpec

NOW = 100.0
POD = "p-0-1"
TIMES = Times(start_s=60, spare_s=10)


@pytest.fixture
def facts() -> Facts:
    """One pool-manager, one cluster."""
    made = Facts(Peers("pm-1"), Nodes(), bound=0)
    says(made, NOW)
    return made


def says(facts: Facts, now: float, *pods: str, pending: tuple[str, ...] = ()) -> None:
    """The cluster has these pods."""
    classes = {"oci": ""}
    beat = NodeBeat(
        node="k", started_ms=1, pods=pods, pending=pending, capacity=50, isolation=classes
    )
    facts.nodes.heard(beat, now)


def plan(slots: Slots, facts: Facts, now: float) -> list[Start]:
    """Look over the pool and return what is to be started."""
    look_over(slots, facts, TIMES, now)
    return starts(slots, facts, Clock(now, int(now * 1000)))


@pytest.fixture
def slots(facts: Facts) -> Slots:
    """A pool of one, whose pod was asked for."""
    made = Slots(PoolSpec(name="p", stock=1))
    (start,) = plan(made, facts, NOW)
    made.apply(start.slot, 1, fate=None, now=NOW)
    made.created(POD, NOW)
    return made


def test_a_pod_that_waits_for_a_place_is_not_taken_for_silent(facts: Facts, slots: Slots) -> None:
    """Its silence counts from the start of its sidecar, and not for long once it was heard."""
    says(facts, NOW + 1000, POD, pending=(POD,))
    assert plan(slots, facts, NOW + 1000) == []
    assert slots.rows["0"].phase == "starting"
    says(facts, NOW + 1001, POD)
    says(facts, NOW + 1060, POD)
    plan(slots, facts, NOW + 1060)
    assert slots.rows["0"].phase == "starting"
    slots.heard(POD, bound=False, now=NOW + 1060)
    says(facts, NOW + 1069, POD)
    plan(slots, facts, NOW + 1069)
    assert slots.rows["0"].phase == "warm"
    says(facts, NOW + 1071, POD)
    plan(slots, facts, NOW + 1071)
    assert slots.rows["0"].phase == "gone"


def test_a_pod_whose_worker_never_speaks_is_given_up(facts: Facts, slots: Slots) -> None:
    """Its container runs, and hangs."""
    says(facts, NOW + 5, POD, pending=(POD,))
    says(facts, NOW + 10, POD)
    says(facts, NOW + 71, POD)
    plan(slots, facts, NOW + 69)
    assert slots.rows["0"].phase == "starting"
    plan(slots, facts, NOW + 71)
    assert slots.rows["0"].phase == "gone"


def test_a_pool_that_is_allowed_no_pod_asks_ever_less_often(facts: Facts, slots: Slots) -> None:
    """Many slots that were refused at once count once; the first pod that is made ends it."""
    slots.gone(POD, NOW)
    now, waits = NOW + 1, []
    for _ in range(8):
        says(facts, now)
        (start,) = plan(slots, facts, now)
        slots.hold("exceeded quota", now)
        slots.hold("exceeded quota", now)
        facts.nodes.not_asked(start.slot.pod)
        waits.append(slots.held_until - now)
        assert plan(slots, facts, slots.held_until - 0.1) == []
        assert "exceeded quota" in slots.why(now)
        assert f"next try in {waits[-1]:.0f} s" in slots.why(now)
        now = slots.held_until
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]
    assert waits[-1] == HOLD_S[1]
    slots.created(POD, now)
    slots.hold("exceeded quota", now)
    assert slots.held_until - now == HOLD_S[0]


def test_a_slots_record_that_gets_its_pods_key_starts_nothing_anew(
    facts: Facts, slots: Slots
) -> None:
    """The pod is the same: how far it is stays known."""
    slots.heard(POD, bound=False, now=NOW + 1)
    before = msgspec.structs.replace(slots.rows["0"].slot)
    bound = msgspec.structs.replace(before, key="U123")
    assert not slots.apply(bound, 2, fate=None, now=NOW + 2)
    row = slots.rows["0"]
    assert (row.phase, row.seq, row.slot.key, row.since) == ("warm", 2, "U123", NOW + 1)
    assert slots.count["warm"] == 1


def test_a_pools_reason_is_what_keeps_its_pods_from_starting(slots: Slots) -> None:
    """Unless they may not even be made."""
    assert slots.why(NOW) == ""
    slots.stuck = "3 pods do not start: Unschedulable"
    assert slots.why(NOW) == slots.stuck
    slots.reason = "exceeded quota"
    assert slots.why(NOW) == "exceeded quota"


def test_a_refill_lets_claims_go_first(facts: Facts) -> None:
    """While pods are claimed one after another none is started, for a second at most, and only where some are left."""
    slots = Slots(PoolSpec(name="p", stock=8))
    slots.pace.calm_s = 0.15
    for seq, start in enumerate(plan(slots, facts, NOW), start=1):
        slots.apply(start.slot, seq, fate=None, now=NOW)
        slots.heard(start.slot.pod, bound=False, now=NOW)
    said = tuple(f"p-{index}-1" for index in range(8))

    def planned(now: float) -> int:
        says(facts, now, *said)
        return len(plan(slots, facts, now))

    slots.taken("p-0-1", NOW + 1)
    assert planned(NOW + 1.1) == 0
    slots.taken("p-1-1", NOW + 1.1)
    assert planned(NOW + 1.2) == 0
    assert planned(NOW + 1.3) == 2

    for step in range(5):
        slots.taken(f"p-{step + 2}-1", NOW + 2 + step / 100)
    assert (slots.count["warm"], planned(NOW + 2.1)) == (1, 0)
    slots.rang("interactive")  # there may be none for it
    assert planned(NOW + 2.1) == 7


def test_beside_claims_that_go_on_few_pods_are_started_at_once(facts: Facts) -> None:
    """Each takes processors that claims need. A pool that runs dry is filled whatever that costs, and so is one at rest."""
    slots = Slots(PoolSpec(name="p", stock=8))
    for seq, start in enumerate(plan(slots, facts, NOW), start=1):
        slots.apply(start.slot, seq, fate=None, now=NOW)
        slots.heard(start.slot.pod, bound=False, now=NOW)
    slots.pace.beside_claims = 2
    says(facts, NOW + 1, *(f"p-{index}-1" for index in range(8)))

    for index in range(4):
        slots.taken(f"p-{index}-1", NOW + 1)
    first = plan(slots, facts, NOW + 1)
    assert len(first) == 2
    slots.apply(first[0].slot, 9, fate=None, now=NOW + 1)
    assert len(plan(slots, facts, NOW + 1.1)) == 1  # that one's start is seen, the other's not yet
    for index in range(4, 6):
        slots.taken(f"p-{index}-1", NOW + 1.2)
    assert len(plan(slots, facts, NOW + 1.3)) == 5, "two are left"
    for seq, start in enumerate(plan(slots, facts, NOW + 1.3), start=10):
        slots.apply(start.slot, seq, fate=None, now=NOW + 1.3)
        slots.heard(start.slot.pod, bound=False, now=NOW + 1.3)
    slots.taken("p-6-1", NOW + 1.4)
    slots.taken("p-7-1", NOW + 1.4)
    assert len(plan(slots, facts, NOW + 1.5)) == 1
    assert len(plan(slots, facts, NOW + 2.5)) == 2, "nothing was claimed for a second"


def test_claims_that_never_end_hold_a_refill_up_for_a_second(facts: Facts) -> None:
    """The pool would run dry."""
    slots = Slots(PoolSpec(name="p", stock=40))
    slots.pace.calm_s = 0.15
    for seq, start in enumerate(plan(slots, facts, NOW), start=1):
        slots.apply(start.slot, seq, fate=None, now=NOW)
        slots.heard(start.slot.pod, bound=False, now=NOW)
    says(facts, NOW + 1, *(f"p-{index}-1" for index in range(40)))
    began = []
    for step in range(15):
        slots.taken(f"p-{step}-1", NOW + 1 + step / 10)
        began.append(len(plan(slots, facts, NOW + 1.01 + step / 10)))
    assert began[:10] == [0] * 10
    assert began[10] >= 10
