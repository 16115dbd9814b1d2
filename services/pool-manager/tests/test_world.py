"""What one event means for pools, owners and bells together."""

from __future__ import annotations

import msgspec
import pytest

from pool_manager.core.lost import GONE_KEPT_S, Bounds
from pool_manager.core.plan import Clock, starts
from pool_manager.core.slots import RECORD_S, SILENT_S
from pool_manager.core.world import HUNG_S, World
from shared.messages import NodeBeat, PodGone, Slot, WorkerBeat
from shared.pools import PoolSpec
from shared.record import Record

NOW = 100.0
POD = "p-0-1"


def beat(session: str | None = None, pod: str = POD) -> WorkerBeat:
    """Return a worker's heartbeat."""
    tenant = "t" if session else None
    return WorkerBeat(
        worker=pod, pool="p", node="n", state="warm", session=session, tenant=tenant, epoch=1
    )


def node(*pods: str, started_ms: int = 1) -> NodeBeat:
    """Return a node's heartbeat."""
    return NodeBeat(
        node="n", started_ms=started_ms, pods=pods, capacity=9, isolation={"namespace": ""}
    )


def record(state: str = "running") -> Record:
    """Return a session of the pod."""
    return Record(
        session="session-1",
        tenant="t",
        pool="p",
        state=state,  # type: ignore[arg-type]  # a parameter of the test
        lane="batch",
        client_lane="batch",
        keep=False,
        accepted_ms=1,
        epoch=1,
        owner=POD,
        node="n",
    )


@pytest.fixture
def world() -> World:
    """One pool of one slot, whose pod is warm."""
    return filled(PoolSpec(name="p", stock=1))


def filled(spec: PoolSpec) -> World:
    """Return what one knows of a pool of one slot, whose pod is warm."""
    made = World("pm-1", [spec], Bounds(), NOW - 50)
    slot = Slot(
        pool="p", slot="0", generation=1, pod=POD, node="n", manager="pm-1", reserved_ms=99_000
    )
    made.on_slot(slot, 1, NOW)
    made.on_node(node(POD), NOW)
    made.on_worker(beat(), NOW)
    return made


def test_a_claim_makes_the_slot_due_by_whichever_event_comes_first(world: World) -> None:
    """The record or the heartbeat; the second one changes nothing."""
    assert world.on_record(record(), 5, now=NOW + 1)
    assert world.on_worker(beat("session-1"), NOW + 1) is None
    assert world.pools["p"].due.keys() == {"0"}


def room(world: World, now: float) -> int:
    """Return how many pods may be started now."""
    slots = world.pools["p"]
    return len(starts(slots, world.facts(slots, set()), Clock(now, int(now * 1000))))


def test_a_claim_leaves_no_room_by_whichever_event_comes_first() -> None:
    """The worker's word may overtake the record: else a pool of one pod had a second one for that moment."""
    for ordered in (True, False):
        made = filled(PoolSpec(name="p", stock=1, pods_max=1))
        events = [
            lambda made=made: made.on_record(record(), 5, now=NOW + 1),
            lambda made=made: made.on_worker(beat("session-1"), NOW + 1),
        ]
        for event in events if ordered else reversed(events):
            event()
            assert room(made, NOW + 1) == 0
        made.on_worker(beat("session-1"), NOW + 2)
        assert room(made, NOW + 2) == 0
        made.on_node(node(POD), NOW + 3)
        made.on_record(msgspec.structs.replace(record("closed"), owner=None), 6, now=NOW + 3)
        assert room(made, NOW + 3) == 1


def test_a_record_that_was_missed_takes_no_room_for_ever() -> None:
    """Until its pod is gone, or would long have been recorded."""
    made = filled(PoolSpec(name="p", stock=1, pods_max=1))
    made.on_worker(beat("session-1"), NOW + 1)
    assert room(made, NOW + 1) == 0
    made.on_gone("p", PodGone(pod=POD, node="n", cause="exited"), NOW + 2)
    made.on_node(node(), NOW + 2)
    assert room(made, NOW + 2) == 1
    made = filled(PoolSpec(name="p", stock=1, pods_max=1))
    made.on_worker(beat("session-1"), NOW + 1)
    made.on_node(node(POD), NOW + 1 + RECORD_S)
    assert [room(made, NOW + 1 + RECORD_S + late) for late in (0, 0.1)] == [0, 1]


@pytest.mark.parametrize(
    ("said", "cause", "died"),
    [(node(), "pod_absent", True), (node(started_ms=2), "node_restarted", False)],
)
def test_a_pod_that_its_nodes_heartbeat_leaves_out_is_gone(
    world: World, said: NodeBeat, cause: str, died: bool
) -> None:
    """The word of its end was lost, or the node's own process."""
    world.on_record(record(), 5, now=NOW)

    assert world.on_node(said, NOW + 0.5)

    (row,) = world.table.owned.values()
    death = world.detector.judge(row, NOW + 0.5)
    assert death is not None
    assert (death.cause, death.process_died) == (cause, died)
    assert world.pools["p"].rows["0"].phase == "gone"


def test_an_end_that_was_heard_is_not_found_again(world: World) -> None:
    """The node's next heartbeat says nothing new."""
    assert world.on_gone("p", PodGone(pod=POD, node="n", cause="deleted"), NOW)

    assert not world.on_node(node(), NOW + 0.5)
    (row,) = [world.table.apply(record(), 5, now=NOW)]
    assert row is not None
    death = world.detector.judge(row, NOW + 0.6)
    assert death is not None
    assert death.cause == "pod_deleted"


def test_heartbeats_of_a_pod_that_is_gone_are_late(world: World) -> None:
    """They were sent before its end."""
    world.on_gone("p", PodGone(pod=POD, node="n", cause="exited"), NOW)

    assert world.on_worker(beat("session-1"), NOW + 0.1) is None
    assert world.warm_workers("p", NOW + 0.1) == []


def test_a_worker_that_fell_silent_is_no_warm_one(world: World) -> None:
    """Nobody said that it ended."""
    assert [name for name, _, _ in world.warm_workers("p", NOW + 1)] == [POD]
    assert world.warm_workers("p", NOW + SILENT_S + 1) == []


def test_a_new_worker_hears_a_bell_if_messages_wait(world: World) -> None:
    """They rang when nobody was there."""
    slots = world.pools["p"]
    world.on_record(record(), 5, now=NOW)
    slots.rang("interactive")
    slot = Slot(
        pool="p", slot="0", generation=2, pod="p-0-2", node="n", manager="pm-1", reserved_ms=1
    )
    world.on_slot(slot, 2, NOW)

    assert world.on_worker(beat(pod="p-0-2"), NOW + 1) == "bell"
    assert world.on_worker(beat(pod="p-0-2"), NOW + 2) is None


def test_a_pod_whose_worker_says_nothing_is_ended_in_the_end(world: World) -> None:
    """Stopped, or stuck at its start; not while it owns a session, which is revoked first."""
    world.on_node(node(POD, "p-0-2"), NOW + 1)
    late = NOW + 1 + HUNG_S
    world.on_node(node(POD, "p-0-2"), late)
    assert world.hung_pods(late) == [(POD, "n")]

    world.on_record(record(), 5, now=late)
    assert world.hung_pods(late) == []
    assert world.hung_pods(late + 1) == [("p-0-2", "n")]
    world.on_worker(beat(pod="p-0-2"), late + 1)
    assert world.hung_pods(late + 1) == []


def test_what_is_gone_is_forgotten_in_the_end(world: World) -> None:
    """Millions of pods come and go."""
    world.on_gone("p", PodGone(pod=POD, node="n", cause="exited"), NOW)

    world.forget(NOW + GONE_KEPT_S + 1)

    assert not world.detector.is_gone(POD)
    assert world.detector.worker(POD) is None
