"""Whether a dead pod's workspace is worth saving, and who can do it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from pool_manager.core import rescues
from pool_manager.core.kube_pods import PLACE
from pool_manager.core.lost import Bounds, Detector
from pool_manager.core.nodes import Nodes
from pool_manager.core.rescues import Checkpointers
from pool_manager.core.table import Row
from pool_manager.core.world import World
from pool_manager.loops.rescue import Rescuer
from shared.limits import WORKSPACE_BYTES_MAX
from shared.messages import NodeBeat, PodGone, WorkerBeat
from shared.pools import OnInterrupt, PoolSpec
from shared.record import Death, Record, Rescue
from shared.traces.context import Context
from shared.workspace import CheckpointerBeat, SnapshotRef

RECORD = Record(
    session="session-1", tenant="t", pool="p", state="running", lane="batch", client_lane="batch", keep=True,
    accepted_ms=1, epoch=1, owner="w", node="n", first_done=True,
)  # fmt: skip
START = 100.0
CLAIMED = START + 10
FIRST = replace(RECORD, keep=False, first_done=False)


@pytest.mark.parametrize(
    ("record", "body", "rule", "worth"),
    [
        (RECORD, None, "rerun", "saving"),  # idle
        (FIRST, None, "resume", "nothing"),  # nothing was ever done
        (RECORD, b"{}", "rerun", "saving_if_whole"),  # what it did itself begins again
        (FIRST, b"{}", "rerun", "nothing"),
        (RECORD, b"{}", "resume", "saving"),
        (RECORD, b"{}", "fail", "saving"),  # the next task goes on from its files
        (RECORD, b'{"on_interrupt": "rerun"}', "resume", "saving_if_whole"),
        (RECORD, b'{"on_interrupt": "resume"}', "rerun", "saving"),
        (FIRST, b'{"on_interrupt": "resume"}', "rerun", "saving"),
        (FIRST, b'{"on_interrupt": "fail"}', "rerun", "nothing"),  # a one-shot's files go with it
        (FIRST, b'{"on_interrupt": "fail", "keep": true}', "rerun", "saving"),
        (RECORD, b'{"tty": {"columns": 80}}', "rerun", "saving"),  # terminals always fail
        (RECORD, b"no json", "rerun", "saving"),  # refused; the next task goes on from the files
        (FIRST, b"", "resume", "nothing"),
    ],
)
def test_what_will_be_used_is_worth_saving(
    record: Record, body: bytes | None, rule: OnInterrupt, worth: rescues.Worth
) -> None:
    """By the task's own rule, else its pool's; a task that begins again from `boundary` needs nothing of its own."""
    assert rescues.worth(record, body, rule) == worth


@pytest.mark.parametrize(
    ("cause", "left"),
    [("exited", True), ("killed", True), ("sandbox_lost", True), ("zygote_lost", True), ("deleted", False),
     ("node_restarted", False), ("node_lost", False), ("absent", True), ("start_failed", False)],
)  # fmt: skip
def test_files_are_left_of_pods_that_a_living_node_saw_die(cause: str, left: bool) -> None:
    """A node that restarted has cleared away, and one that was told to delete a pod has done so."""
    gone = PodGone(pod="w", node="n", cause=cause)
    for speaks in (True, False):
        assert rescues.are_files_left(gone, "disconnect", node_speaks=speaks) == left


@pytest.mark.parametrize(
    ("cause", "speaks", "left"),
    [("disconnect", True, False), ("heartbeats_missed", True, False), ("pod_absent", True, True),
     ("disconnect", False, True), ("heartbeats_missed", False, False), ("not_named", False, False)],
)  # fmt: skip
def test_a_pod_that_nobody_saw_die_may_still_write(cause: str, speaks: bool, left: bool) -> None:
    """Silence is no proof. Where the node says nothing of its pods, a broken connection has to do: files go soon."""
    assert rescues.are_files_left(None, cause, node_speaks=speaks) == left


class TestPlan:
    """Who saves the files of an idle session's worker that died."""

    @pytest.fixture
    def world(self) -> World:
        """A pool-manager's; its node, or all of Kubernetes, was heard just now, as was the session's checkpointer."""
        now = time.monotonic()
        world = World("pm", [PoolSpec(name="p")], Bounds(), now - 20)
        world.checkpointers.heard(CheckpointerBeat(node="n", started_ms=1), now)
        return world

    async def plan(self, world: World, cause: str) -> Rescue | None:
        """Return the plan. Of what it would ask nothing is needed: there is no task in hand."""
        unused: Any = None
        death = Death(cause=cause, process_died=False, in_task=False)
        return await Rescuer(world, unused, unused, unused).plan(RECORD, death, None)

    async def test_a_node_of_ours_has_them_once_it_has_said_how_the_pod_ended(
        self, world: World
    ) -> None:
        """Until then its processes may be there."""
        world.on_node(NodeBeat(node="n", started_ms=1, pods=("w",), capacity=9), time.monotonic())
        assert await self.plan(world, "disconnect") is None

        world.on_gone("p", PodGone(pod="w", node="n", cause="killed"), time.monotonic())
        rescue = await self.plan(world, "process_exit")

        assert rescue is not None
        assert (rescue.owner, rescue.node) == ("ckpt-n", "n")

    @pytest.mark.parametrize("told", [None, "killed"])
    async def test_a_kubernetes_node_has_them_while_its_checkpointer_lives(
        self, world: World, told: str | None
    ) -> None:
        """The plan knows all its nodes by one name; sessions and checkpointers name the one."""
        world.on_node(NodeBeat(node=PLACE, started_ms=1, pods=("w",), capacity=9), time.monotonic())
        if told:
            world.on_gone("p", PodGone(pod="w", node="n", cause=told), time.monotonic())

        rescue = await self.plan(world, "disconnect")
        world.detector.dropped("ckpt-n", "server-1", time.monotonic())
        cut = await self.plan(world, "disconnect")

        assert rescue is not None
        assert (rescue.owner, rescue.node) == ("ckpt-n", "n")
        assert cut is None

    async def test_a_kubernetes_node_that_lost_its_power_has_none(self, world: World) -> None:
        """It was found dead: nobody is asked there, whatever was heard of it a moment ago."""
        world.on_node(NodeBeat(node=PLACE, started_ms=1, capacity=9), time.monotonic())
        world.dead_nodes = ("n",)
        assert await self.plan(world, "disconnect") is None

        world.dead_nodes = ()
        world.on_gone("p", PodGone(pod="w", node="n", cause="node_lost"), time.monotonic())
        assert await self.plan(world, "node_lost") is None


def test_a_checkpointer_is_asked_while_it_is_heard_and_its_store_works() -> None:
    """It says itself why it can't save."""
    known = Checkpointers()
    assert known.problem("n", 0.0)
    known.heard(CheckpointerBeat(node="n", started_ms=5), 10.0)
    known.heard(CheckpointerBeat(node="n", started_ms=4, unavailable="late, of the former"), 10.5)

    assert known.problem("n", 11.9) == ""
    assert "silent" in known.problem("n", 12.1)
    known.heard(CheckpointerBeat(node="n", started_ms=5, unavailable="the store is down"), 13.0)
    assert known.problem("n", 13.0) == "the store is down"
    assert not known.is_silent("n", 13.0)
    known.forget(13.0 + rescues.FORGET_S + 1)
    assert known.is_silent("n", 13.0)


def test_a_rescue_has_time_for_what_a_workspace_may_hold() -> None:
    """Two seconds, and a second for each 100 MB of what a snapshot may hold."""
    gib = 1 << 30
    large = replace(RECORD, boundary=SnapshotRef(id="a" * 64, pack="t/s/p", at_ms=1, bytes=2 * gib))

    assert rescues.patience_ms(RECORD, 100_000_000) == 3_000
    assert rescues.patience_ms(large, 0) == 2_000 + 4 * gib // 100_000
    assert rescues.patience_ms(RECORD, 20 * gib) == 2_000 + 20 * gib // 100_000
    assert rescues.patience_ms(RECORD, 1 << 50) == 2_000 + WORKSPACE_BYTES_MAX // 100_000


def test_a_rescue_belongs_to_the_trace_of_the_recovery() -> None:
    """Its span hangs there; whoever adopts it later, and asks for the same job, has none."""
    rescuing = replace(RECORD, state="rescuing", rescue_pod="w", rescue_until_ms=5_000)
    own = Context("a" * 32, "b" * 16, state="x=1")

    ask = rescues.ask_of(rescuing, 1_000, own)

    assert (ask.traceparent, ask.tracestate) == (own.traceparent, "x=1")
    assert rescues.ask_of(rescuing, 1_000) == replace(ask, traceparent="", tracestate="")


def test_a_rescue_has_a_deadline_of_its_own() -> None:
    """It stands in the record; a checkpointer that is heard has all of that time, and what clocks may differ."""
    checkpointers = Checkpointers()
    detector = Detector(Nodes(), checkpointers, Bounds(), START)
    rescuing = Row("t.session-1", replace(RECORD, state="rescuing", owner="ckpt-n"), 7, CLAIMED)
    rescuing.record = replace(rescuing.record, claimed_ms=1_000, rescue_until_ms=21_000)

    def judge(after_s: float) -> str | None:
        now = CLAIMED + after_s
        checkpointers.heard(CheckpointerBeat(node="n", started_ms=1), now)
        death = detector.judge(rescuing, now)
        return death and death.cause

    assert judge(0) is None
    assert judge(20.5) is None
    assert judge(21.5) == "rescue_late"


def test_a_checkpointer_that_is_silent_in_a_rescue_is_given_up() -> None:
    """Long before the deadline."""
    checkpointers = Checkpointers()
    detector = Detector(Nodes(), checkpointers, Bounds(), START)
    rescuing = Row("t.session-1", replace(RECORD, state="rescuing", owner="ckpt-n"), 7, CLAIMED)
    rescuing.record = replace(rescuing.record, claimed_ms=1_000, rescue_until_ms=61_000)
    checkpointers.heard(CheckpointerBeat(node="n", started_ms=1), CLAIMED)

    assert detector.judge(rescuing, CLAIMED + 1.9) is None
    death = detector.judge(rescuing, CLAIMED + 2.1)

    assert death is not None
    assert (death.cause, death.process_died) == ("checkpointer_lost", False)


@pytest.mark.parametrize(("epoch", "told"), [(1, 4096), (2, None)])
def test_what_a_worker_said_of_its_unsaved_files_is_kept(epoch: int, told: int | None) -> None:
    """For the client, which is told what is rolled back; unless it was about another session, or an older epoch of it."""
    detector = Detector(Nodes(), Checkpointers(), Bounds(), START)
    beat = WorkerBeat(
        worker="w", pool="p", node="n", state="running", session="session-1", tenant="t", epoch=1,
        unsaved_bytes=4096,
    )  # fmt: skip
    row = Row("t.session-1", replace(RECORD, epoch=epoch), 7, CLAIMED)
    detector.heard(beat, CLAIMED + 1)
    silent = detector.judge(row, CLAIMED + 6)
    detector.gone(PodGone(pod="w", node="n", cause="killed"), CLAIMED + 6)
    gone = detector.judge(row, CLAIMED + 6)

    assert silent is not None
    assert gone is not None
    assert (silent.unsaved_bytes, gone.unsaved_bytes) == (told, told)
