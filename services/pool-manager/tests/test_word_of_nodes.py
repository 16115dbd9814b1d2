"""A node that lives is asked before the end of a connection is believed: it knows how its worker ended, and has the files."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pool_manager.core.lost import Bounds, Detector
from pool_manager.core.nodes import Nodes
from pool_manager.core.rescues import Checkpointers
from pool_manager.core.table import Row
from shared.messages import Interruption, NodeBeat, PodGone, WorkerBeat
from shared.record import Record
from shared.workspace import CheckpointerBeat

START = 100.0
CLAIMED = START + 10
RECORD = Record(
    session="session-1", tenant="t", pool="p", state="running", lane="batch", client_lane="batch", keep=True,
    accepted_ms=1, epoch=1, owner="w", node="n",
)  # fmt: skip
ROW = Row("t.session-1", RECORD, 7, CLAIMED)
BEAT = WorkerBeat(
    worker="w", pool="p", node="n", state="running", session="session-1", tenant="t", epoch=1
)


def node_beat(pods: tuple[str, ...] = ("w",)) -> NodeBeat:
    """Return a heartbeat of the node."""
    return NodeBeat(node="n", started_ms=1, pods=pods, capacity=9)


@pytest.fixture
def nodes() -> Nodes:
    """No node yet."""
    return Nodes()


@pytest.fixture
def detector(nodes: Nodes) -> Detector:
    """A detector that started long ago."""
    return Detector(nodes, Checkpointers(), Bounds(), START)


def cut_off(detector: Detector, nodes: Nodes) -> None:
    """The worker lives on a node that lives; then its connection ends, 1.1 s after the claim."""
    nodes.heard(node_beat(), CLAIMED + 1)
    detector.heard(BEAT, CLAIMED + 1)
    detector.dropped("w", "server-1", CLAIMED + 1.1)


def test_a_living_node_is_waited_for_until_it_says_how_its_worker_ended(
    detector: Detector, nodes: Nodes
) -> None:
    """Under load that takes longer than the grace of a disconnect; it counts the death, and has the files."""
    cut_off(detector, nodes)
    for step in range(1, 8):
        now = CLAIMED + 1.1 + step * 0.4
        nodes.heard(node_beat(), now)
        assert detector.judge(ROW, now) is None
    detector.gone(PodGone(pod="w", node="n", cause="killed"), CLAIMED + 4)

    death = detector.judge(ROW, CLAIMED + 4)

    assert death is not None
    assert (death.cause, death.process_died) == ("process_exit", True)


def test_a_living_node_that_says_nothing_is_waited_for_until_t_fence(
    detector: Detector, nodes: Nodes
) -> None:
    """The worker may live, and not be heard: nobody knows."""
    cut_off(detector, nodes)
    nodes.heard(node_beat(), CLAIMED + 4.9)

    assert detector.judge(ROW, CLAIMED + 4.9) is None
    death = detector.judge(ROW, CLAIMED + 5.1)

    assert death is not None
    assert (death.cause, death.process_died) == ("heartbeats_missed", False)


@pytest.mark.parametrize("first", ["w", "n-n"])
def test_a_node_that_died_with_its_worker_is_not_waited_for(
    detector: Detector, nodes: Nodes, first: str
) -> None:
    """Both connections ended, whichever was told of first: no later than without a node."""
    nodes.heard(node_beat(), CLAIMED + 1)
    detector.heard(BEAT, CLAIMED + 1)
    for at, name in enumerate(sorted(("w", "n-n"), key=lambda name: name != first)):
        detector.dropped(name, "server-1", CLAIMED + 1.1 + at / 100)

    death = detector.judge(ROW, CLAIMED + 1.5)

    assert death is not None
    assert death.cause == "disconnect"


def test_a_node_that_is_silent_is_not_waited_for(detector: Detector, nodes: Nodes) -> None:
    """It may have died, whatever is known of its connection."""
    cut_off(detector, nodes)

    assert detector.judge(ROW, CLAIMED + 2.9) is None
    assert detector.judge(ROW, CLAIMED + 3.1) is not None


@pytest.mark.parametrize(("pods", "waits"), [(("w",), True), ((), False)])
def test_a_node_that_does_not_have_the_pod_any_more_is_not_waited_for(
    detector: Detector, nodes: Nodes, pods: tuple[str, ...], waits: bool
) -> None:
    """It has said what it had to say; its worker was claimed too lately for a node's silence about it to be a word."""
    nodes.heard(node_beat(()), CLAIMED)
    detector.heard(BEAT, CLAIMED + 0.1)
    detector.dropped("w", "server-1", CLAIMED + 0.2)
    assert detector.judge(ROW, CLAIMED + 0.55) is None

    nodes.heard(node_beat(pods), CLAIMED + 0.6)

    assert (detector.judge(ROW, CLAIMED + 0.7) is None) == waits


def test_a_node_that_was_cut_off_and_is_heard_again_is_waited_for(
    detector: Detector, nodes: Nodes
) -> None:
    """It has gone over to another server; its worker has not."""
    cut_off(detector, nodes)
    detector.dropped("n-n", "server-1", CLAIMED + 1.1)
    assert detector.judge(ROW, CLAIMED + 1.5) is not None
    nodes.heard(node_beat(), CLAIMED + 1.6)

    assert detector.judge(ROW, CLAIMED + 1.7) is None


def test_a_heartbeat_that_was_on_its_way_when_its_node_died_proves_nothing(
    detector: Detector, nodes: Nodes
) -> None:
    """Servers tell of the end of a connection on another way than heartbeats come."""
    cut_off(detector, nodes)
    detector.dropped("n-n", "server-1", CLAIMED + 1.1)
    nodes.heard(node_beat(), CLAIMED + 1.15)

    assert detector.judge(ROW, CLAIMED + 1.5) is not None


@pytest.mark.parametrize("again", [False, True])
def test_kubernetes_is_waited_for_where_a_task_may_be_poison(again: bool) -> None:
    """Its API tells of an end a second or two later: too late for the first one, but what costs workers is counted."""
    nodes, checkpointers = Nodes(), Checkpointers()
    detector = Detector(nodes, checkpointers, Bounds(), START)
    nodes.heard(NodeBeat(node="kubernetes", started_ms=1, pods=("w",), capacity=9), CLAIMED + 1)
    checkpointers.heard(CheckpointerBeat(node="n", started_ms=1), CLAIMED + 1)
    lost = Interruption(cause="disconnect", epoch=1, worker="v", revoked_ms=1)
    owned = Row("t.session-1", replace(RECORD, interruptions=(lost,) if again else ()), 7, CLAIMED)
    detector.heard(BEAT, CLAIMED + 1)
    detector.dropped("w", "server-1", CLAIMED + 1.1)

    assert (detector.judge(owned, CLAIMED + 1.5) is None) == again
    detector.dropped("ckpt-n", "server-1", CLAIMED + 1.5)
    assert detector.judge(owned, CLAIMED + 1.6) is not None


KEPT = replace(RECORD, first_done=True, attempt=1, claimed_ms=1_000, last_done_ms=2_000)


@pytest.mark.parametrize(
    ("kept", "said", "spared"),
    [
        (KEPT, BEAT, True),
        (KEPT, replace(BEAT, task="task-0002"), False),  # it had begun
        (KEPT, replace(BEAT, task="task-0001"), True),  # it was at the one before
        (KEPT, replace(BEAT, session="session-2"), False),  # nothing is known of this one
        (replace(KEPT, attempt=2), BEAT, False),  # claimed for the task
        (replace(KEPT, last_done_ms=900), BEAT, False),  # likewise
        (replace(KEPT, first_done=False), BEAT, False),
    ],
)
def test_an_owner_that_was_idle_when_it_was_last_heard_did_not_die_of_what_came_in_since(
    detector: Detector, kept: Record, said: WorkerBeat, spared: bool
) -> None:
    """One that got the session for a task may have died of reading it."""
    assert not detector.had_not_begun(kept, "task-0002")
    detector.heard(said, CLAIMED + 1)
    detector.gone(PodGone(pod="w", node="n", cause="killed"), CLAIMED + 1.1)

    assert detector.had_not_begun(kept, "task-0002") == spared
