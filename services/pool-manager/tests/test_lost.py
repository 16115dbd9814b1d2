"""Who is given up, by which sign, and who is not."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from pool_manager.core.lost import Bounds, Detector
from pool_manager.core.nodes import Nodes
from pool_manager.core.rescues import Checkpointers
from pool_manager.core.table import Row
from shared.messages import NodeBeat, PodGone, WorkerBeat
from shared.record import Record

START = 100.0
CLAIMED = START + 10


def record(epoch: int = 1, state: str = "running") -> Record:
    """Return a session that the pod `w` on node `n` owns."""
    return Record(
        session="session-1",
        tenant="t",
        pool="p",
        state=state,  # type: ignore[arg-type]  # a parameter of the test
        lane="batch",
        client_lane="batch",
        keep=False,
        accepted_ms=1,
        epoch=epoch,
        owner="w",
        node="n",
    )


def row(epoch: int = 1, state: str = "running") -> Row:
    """Return its row, seen at CLAIMED."""
    return Row("t.session-1", record(epoch, state), 7, CLAIMED)


def beat(session: str | None = "session-1", epoch: int = 1, worker: str = "w") -> WorkerBeat:
    """Return a heartbeat that names a session."""
    return WorkerBeat(
        worker=worker,
        pool="p",
        node="n",
        state="running",
        session=session,
        tenant="t" if session else None,
        epoch=epoch,
    )


def node_beat(pods: tuple[str, ...] = ("w",), started_ms: int = 1) -> NodeBeat:
    """Return a heartbeat of the node."""
    return NodeBeat(node="n", started_ms=started_ms, pods=pods, capacity=9)


@pytest.fixture
def nodes() -> Nodes:
    """No node yet."""
    return Nodes()


@pytest.fixture
def detector(nodes: Nodes) -> Detector:
    """A detector that started long ago."""
    return Detector(nodes, Checkpointers(), Bounds(), START)


def test_what_a_node_says_of_its_pod_is_proof(detector: Detector) -> None:
    """At once, whatever else is heard; the process died, and its node lives."""
    detector.heard(beat(), CLAIMED + 0.2)
    detector.gone(PodGone(pod="w", node="n", cause="killed"), CLAIMED + 0.3)

    death = detector.judge(row(), CLAIMED + 0.31)

    assert death is not None
    assert (death.cause, death.process_died, death.silent_ms) == ("process_exit", True, 110)


def test_a_pod_that_we_deleted_did_not_die_of_its_task(detector: Detector) -> None:
    """It counts for no poison."""
    detector.gone(PodGone(pod="w", node="n", cause="deleted"), CLAIMED)

    death = detector.judge(row(), CLAIMED)

    assert death is not None
    assert (death.cause, death.process_died) == ("pod_deleted", False)


def test_a_pod_that_went_with_its_zygote_did_not_die_of_its_task(detector: Detector) -> None:
    """A fault of the node: however often it happens, the task is run again."""
    detector.gone(PodGone(pod="w", node="n", cause="zygote_lost", signal=9), CLAIMED)

    death = detector.judge(row(), CLAIMED)

    assert death is not None
    assert (death.cause, death.process_died) == ("zygote_lost", False)


def test_silence_is_believed_after_t_fence(detector: Detector) -> None:
    """Suspected at 1.5 s, given up at 4 s."""
    detector.heard(beat(), CLAIMED + 1)

    assert detector.judge(row(), CLAIMED + 4.9) is None
    death = detector.judge(row(), CLAIMED + 5.1)

    assert death is not None
    assert (death.cause, death.process_died, death.silent_ms) == ("heartbeats_missed", False, 4100)


def test_an_owner_that_was_never_heard_has_t_fence_from_its_claim(detector: Detector) -> None:
    """It may have claimed just now."""
    assert detector.judge(row(), CLAIMED + 3.9) is None
    assert detector.judge(row(), CLAIMED + 4.1) is not None


def test_a_detector_that_was_deaf_believes_in_no_silence(detector: Detector) -> None:
    """After its own start or reconnect nobody is given up for silence until T_fence has passed."""
    detector.heard(beat(), CLAIMED)
    detector.restart(CLAIMED + 20)

    assert detector.judge(row(), CLAIMED + 20.1) is None
    assert detector.judge(row(), CLAIMED + 23.9) is None
    assert detector.judge(row(), CLAIMED + 24.1) is not None


def test_a_dropped_connection_is_believed_after_its_grace(detector: Detector) -> None:
    """Unless the worker is heard again."""
    detector.heard(beat(), CLAIMED + 1)
    detector.dropped("w", "server-1", CLAIMED + 1.1)

    assert detector.judge(row(), CLAIMED + 1.3) is None
    death = detector.judge(row(), CLAIMED + 1.5)
    detector.heard(beat(), CLAIMED + 1.5)

    assert death is not None
    assert (death.cause, death.process_died) == ("disconnect", False)
    assert detector.judge(row(), CLAIMED + 1.6) is None


def test_most_clients_of_one_server_dropped_together_say_nothing(detector: Detector) -> None:
    """The server left, not they."""
    names = ["w", *(f"w{index}" for index in range(5))]
    for name in names:
        detector.connected(name, "server-1")
        detector.heard(beat(worker=name), CLAIMED + 1)
    for name in names:
        detector.dropped(name, "server-1", CLAIMED + 1.1)

    assert detector.judge(row(), CLAIMED + 1.5) is None
    assert detector.judge(row(), CLAIMED + 5.2) is not None


def test_clients_that_are_no_workers_are_forgotten(detector: Detector) -> None:
    """They come and go by the million; a worker may connect before its first heartbeat."""
    for name in ("w", "a-client"):
        detector.connected(name, "server-2")
    detector.forget(CLAIMED)
    detector.heard(beat(), CLAIMED + 1)
    detector.forget(CLAIMED + 1)

    for name in ("w", "a-client"):
        detector.dropped(name, "server-1", CLAIMED + 1.1)  # stale for whoever is known on another

    assert detector.judge(row(), CLAIMED + 1.5) is None
    assert detector.known_clients == 1


def test_the_end_of_a_connection_is_no_drop_once_the_worker_has_another(
    detector: Detector,
) -> None:
    """To renew its credential it makes a second one beside the first, perhaps at the same server, and goes over."""
    detector.connected("w", "server-1", 7)
    detector.heard(beat(), CLAIMED + 1)
    detector.connected("w", "server-1", 8)
    detector.dropped("w", "server-1", CLAIMED + 1.1, 7)

    assert detector.judge(row(), CLAIMED + 1.5) is None
    detector.dropped("w", "server-1", CLAIMED + 1.2, 8)
    assert detector.judge(row(), CLAIMED + 1.6) is not None


def test_a_drop_is_stale_once_the_worker_is_on_another_server(detector: Detector) -> None:
    """A server that hung tells late of a connection that was given up long ago."""
    detector.heard(beat(), CLAIMED + 1)
    detector.connected("w", "server-2")
    detector.dropped("w", "server-1", CLAIMED + 1.1)

    assert detector.judge(row(), CLAIMED + 1.5) is None


@pytest.mark.parametrize("said", [beat(None), beat("session-2"), beat(epoch=3)])
def test_an_owner_that_names_something_else_is_revoked(
    detector: Detector, said: WorkerBeat
) -> None:
    """Rule 6: a claim whose answer was lost has an owner that does not know it."""
    for step in range(1, 7):
        detector.heard(said, CLAIMED + step * 0.25)

    assert detector.judge(row(epoch=2), CLAIMED + 1.4) is None
    death = detector.judge(row(epoch=2), CLAIMED + 1.6)

    assert death is not None
    assert death.cause == "not_named"


def test_a_pod_that_its_living_node_does_not_have_is_dead(detector: Detector, nodes: Nodes) -> None:
    """The word of its end was lost; the heartbeat of the node says it again."""
    detector.heard(beat(), CLAIMED + 1)
    nodes.heard(node_beat(), CLAIMED + 1)
    assert detector.judge(row(), CLAIMED + 1.2) is None
    nodes.heard(node_beat(()), CLAIMED + 1.5)

    death = detector.judge(row(), CLAIMED + 1.6)

    assert death is not None
    assert (death.cause, death.process_died) == ("pod_absent", True)


def test_a_new_detector_believes_a_living_node_at_once(detector: Detector, nodes: Nodes) -> None:
    """T_fence after its own start is for silence: who has just been told needs no time to hear."""
    detector.restart(CLAIMED - 1)
    nodes.heard(node_beat(()), CLAIMED + 0.9)
    assert detector.judge(row(), CLAIMED + 0.9) is None
    nodes.heard(node_beat(()), CLAIMED + 1.4)

    death = detector.judge(row(), CLAIMED + 1.5)

    assert death is not None
    assert (death.cause, death.process_died) == ("pod_absent", True)


def test_a_node_that_started_anew_lost_its_pods_and_killed_none(
    detector: Detector, nodes: Nodes
) -> None:
    """Its node did not live: no death is counted."""
    nodes.heard(node_beat(started_ms=1), CLAIMED - 1)
    nodes.heard(node_beat((), started_ms=2), CLAIMED + 0.1)

    death = detector.judge(row(), CLAIMED + 0.2)

    assert death is not None
    assert (death.cause, death.process_died) == ("node_restarted", False)


def test_a_node_that_started_after_the_claim_killed_nobody(
    detector: Detector, nodes: Nodes
) -> None:
    """Everything was started anew, this detector too: it never heard the node's former process."""
    claimed = Row("t.session-1", replace(record(), claimed_ms=5000), 7, CLAIMED)
    nodes.heard(node_beat((), started_ms=6000), CLAIMED + 1.5)

    death = detector.judge(claimed, CLAIMED + 1.6)

    assert death is not None
    assert (death.cause, death.process_died) == ("node_restarted", False)


@given(
    gaps=st.lists(st.floats(0.01, 1.4), min_size=1, max_size=40),
    start=st.floats(0, 20),
    drops=st.lists(st.integers(0, 39), max_size=3),
)
def test_an_owner_that_names_its_session_in_time_is_never_given_up(
    gaps: list[float], start: float, drops: list[int]
) -> None:
    """Whatever reconnects happen in between, if it is heard again within the grace."""
    nodes = Nodes()
    detector = Detector(nodes, Checkpointers(), Bounds(), CLAIMED - start)
    now = CLAIMED
    for index, gap in enumerate(gaps):
        detector.heard(beat(), now)
        nodes.heard(node_beat(), now)
        if index in drops:
            detector.dropped("w", "server-1", now)
            now += 0.29
            assert detector.judge(row(), now) is None
            detector.heard(beat(), now)
        now += gap
        assert detector.judge(row(), now) is None


@given(silent_from=st.floats(0, 5), start=st.floats(0, 30))
def test_a_silent_owner_is_always_given_up_in_the_end(silent_from: float, start: float) -> None:
    """At the latest T_fence after its last heartbeat, its claim or the detector's start."""
    detector = Detector(Nodes(), Checkpointers(), Bounds(), CLAIMED + 5 - start)
    detector.heard(beat(), CLAIMED + silent_from)

    last = max(CLAIMED + silent_from, CLAIMED + 5 - start)
    assert detector.judge(row(), last + 4.01) is not None
