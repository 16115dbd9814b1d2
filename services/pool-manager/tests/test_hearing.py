"""A pool-manager that stood still, or had no connection, believes in no silence of before."""

from __future__ import annotations

import pytest

from pool_manager.core.hearing import LATE_S, STALE_S
from pool_manager.core.lost import Bounds
from pool_manager.core.plan import Clock, Start, Times, look_over, starts, strays
from pool_manager.core.slots import SILENT_S
from pool_manager.core.world import HUNG_S, World
from shared.messages import NodeBeat, WorkerBeat
from shared.pools import PoolSpec
from shared.record import Record

NOW = 100.0
TIMES = Times()
POOL = PoolSpec(name="p", stock=3)
COLD = PoolSpec(name="c", stock=0)


@pytest.fixture
def world() -> World:
    """A pool-manager that has heard its three warm pods a moment ago."""
    made = World("pm-1", (POOL, COLD), Bounds(), NOW - 60)
    made.hearing.again(NOW - 30)
    node_beats(made, NOW)
    for seq, start in enumerate(planned(made, NOW), start=1):
        made.on_slot(
            start.slot, seq, NOW - 20
        )  # they came up long ago: none ended right after that
        made.on_worker(beat(start.slot.pod), NOW - 20)
        made.on_worker(beat(start.slot.pod), NOW)
    node_beats(made, NOW)
    assert pods(made) == ["p-0-1", "p-1-1", "p-2-1"]
    made.hears(NOW)
    return made


def pods(world: World) -> list[str]:
    """Return the pods of the pool that has a stock."""
    return sorted(world.pools["p"].pods())


def node_beats(world: World, now: float) -> None:
    """The node lives, with all pods of slots."""
    beat_ = NodeBeat(
        node="n", started_ms=1, pods=tuple(pods(world)), capacity=50, isolation={"namespace": ""}
    )
    world.on_node(beat_, now)


def beat(pod: str, session: str | None = None) -> WorkerBeat:
    """Return a heartbeat of the pod's worker."""
    return WorkerBeat(
        worker=pod, pool="p", node="n", state="warm", session=session,
        tenant="t" if session else None, epoch=1,
    )  # fmt: skip


def planned(world: World, now: float) -> list[Start]:
    """Look over the pool as the loop does; return what is to be started."""
    slots, hears = world.pools["p"], world.hears(now)
    facts = world.facts(slots, set())
    if hears:
        look_over(slots, facts, TIMES, now)
    return starts(slots, facts, Clock(now, int(now * 1000)))


def test_warm_pods_are_not_replaced_by_one_that_stood_still(world: World) -> None:
    """SIGSTOP for ten seconds: silence by its own fault."""
    late = NOW + SILENT_S + 2

    assert planned(world, late) == []
    node_beats(world, late + 0.1)
    assert planned(world, late + 0.2) == []
    assert world.pools["p"].count["warm"] == 3


def test_pods_that_stay_silent_afterwards_are_replaced(world: World) -> None:
    """It hears again, so from now on silence means something."""
    late = NOW + 20
    planned(world, late)
    now = late
    while now < late + TIMES.start_s:
        now += 0.5
        node_beats(world, now)
        assert planned(world, now) == []
    node_beats(world, now + 0.5)

    assert len(planned(world, now + 0.5)) == 3


def test_nothing_is_judged_without_a_connection(world: World) -> None:
    """All servers are down for 20 s; then the pods are heard again, and are the same."""
    world.hearing.cut()
    for second in range(20):
        assert planned(world, NOW + second) == []
    world.was_deaf(NOW + 20)
    for second in range(4):
        assert planned(world, NOW + 20 + second / 2) == []
    for pod in pods(world):
        world.on_worker(beat(pod), NOW + 22)

    assert planned(world, NOW + 22) == []
    assert pods(world) == ["p-0-1", "p-1-1", "p-2-1"]


def test_a_pod_given_up_for_its_silence_is_taken_back_when_it_is_heard(world: World) -> None:
    """As long as its slot has no other: nothing is started for it, nothing is ended."""
    slots = world.pools["p"]
    now = NOW
    while now < NOW + SILENT_S + 1:
        now += 0.5
        world.hears(now)
    look_over(slots, world.facts(slots, set()), TIMES, now)
    assert len(slots.due) == 3

    for pod in pods(world):
        world.on_worker(beat(pod), now)

    node_beats(world, now)
    assert planned(world, now) == []
    assert slots.count["warm"] == 3
    warm = world.warm_workers("p", now)
    assert strays(slots, warm, world.facts(slots, set()), now) == []


def test_a_pod_that_is_gone_by_its_node_s_word_is_not_taken_back(world: World) -> None:
    """A heartbeat that comes after that was sent before."""
    other = NodeBeat(
        node="n", started_ms=1, pods=("p-1-1", "p-2-1"), capacity=50, isolation={"namespace": ""}
    )
    world.on_node(other, NOW + 1)
    world.on_worker(beat("p-0-1"), NOW + 1)

    assert [start.slot.pod for start in planned(world, NOW + 1.5)] == ["p-0-2"]


def test_no_pod_is_ended_as_hung_by_one_that_stood_still(world: World) -> None:
    """Its node beats twice a second, its worker every two seconds: the node is heard first."""
    late = NOW + HUNG_S + 30
    world.hears(late)
    node_beats(world, late)

    assert world.hung_pods(late) == []


def test_bells_from_a_buffer_start_no_pods(world: World) -> None:
    """What they rang for was seen to long ago; whatever still waits is found in the lanes."""
    cold = world.pools["c"]
    cold.demand("d0-1", ("interactive", 0), again=False, now=NOW)
    late = NOW + 10
    world.hears(late)

    assert not cold.due
    assert world.hearing.is_stale(late + STALE_S - 0.01)
    assert not world.hearing.is_stale(late + STALE_S + 0.01)


@pytest.mark.parametrize("still_s", [LATE_S + 0.1, 3.0, 30.0])
def test_no_owner_is_given_up_by_one_that_stood_still(world: World, still_s: float) -> None:
    """Nor before T_fence has passed since."""
    record = Record(
        session="session-1", tenant="t", pool="p", state="running", lane="interactive",
        client_lane="interactive", keep=True, accepted_ms=1, epoch=1, owner="p-0-1", node="n",
    )  # fmt: skip
    world.on_record(record, 9, now=NOW)
    world.on_worker(beat("p-0-1", "session-1"), NOW)
    row = world.table.owned["t.session-1"]
    late = NOW + still_s
    world.hears(late)
    node_beats(world, late)

    assert world.detector.judge(row, late) is None
    assert world.detector.judge(row, late + 3.9) is None
    node_beats(world, late + 4.2)
    death = world.detector.judge(row, late + 4.2)
    assert death is not None
    assert death.cause == "heartbeats_missed"
