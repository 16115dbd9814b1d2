"""A Kubernetes cluster as one place for pods: what ends is told once, whatever the watch says twice or too late."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pool_manager.core.kube_cluster import Cluster, Gone
from pool_manager.core.kube_pods import Pod
from pool_manager.core.pod_template import PodTemplate
from pool_manager.core.table import Table
from shared.record import Record
from shared.testing.kube_objects import ended, node_view, pod_view, running, waits

TEMPLATE = PodTemplate(
    namespace="pods", worker_image="w", sandbox_image="s", nats_servers=("nats://n:4222",)
)


def cluster() -> Cluster:
    """Return a cluster of three nodes that was read."""
    made = Cluster(TEMPLATE)
    for what in ("pods", "nodes", "runtimes"):
        made.lost(what, "")
    made.nodes.update({name: node_view(name) for name in ("n1", "n2", "n3")})
    made.list_pods([], 0.0)
    return made


def test_there_is_no_heartbeat_before_the_pods_were_read() -> None:
    """A plan on an empty picture would start everything anew."""
    assert Cluster(TEMPLATE).beat() is None
    beat = cluster().beat()
    assert beat is not None
    assert beat.isolation["oci"] == ""


def test_while_there_is_no_watch_no_class_is_there_and_says_why() -> None:
    """Pods stay listed: nothing says that they are gone."""
    made = cluster()
    made.see_pod(running(), 1.0)
    made.lost("pods", "refused")
    beat = made.beat()
    assert beat is not None
    assert set(beat.isolation.values()) == {"refused"}
    assert beat.pods == ("default-0-1",)


def test_a_pod_is_pending_until_its_sidecar_runs() -> None:
    """Only then can it be heard."""
    made = cluster()
    made.see_pod(pod_view(), 1.0)
    beat = made.beat()
    assert beat is not None
    assert beat.pending == beat.pods == ("default-0-1",)
    made.see_pod(running(), 2.0)
    beat = made.beat()
    assert beat is not None
    assert (beat.pods, beat.pending) == (("default-0-1",), ())


def test_what_a_list_does_not_hold_is_gone() -> None:
    """Missed while there was no watch."""
    made = cluster()
    made.see_pod(running("a"), 1.0)
    made.see_pod(running("b"), 1.0)
    gone = made.list_pods([running("b")], 2.0)
    assert [each.gone.pod for each in gone] == ["a"]
    assert gone[0].gone.cause == "deleted"


def test_a_late_event_of_a_former_pod_ends_no_successor() -> None:
    """Names are free again once an object is gone; uids never are."""
    made = cluster()
    made.see_pod(running("a", uid="two"), 1.0)
    assert made.remove_pod("a", "one") is None
    assert "a" in made.pods


def test_a_pod_that_does_not_start_is_overdue_and_says_when_it_is_tried_again() -> None:
    """The pool's status names the first one's reason."""
    made = cluster()
    made.see_pod(pod_view("a", sidecar=waits("ErrImagePull", "no such image")), 10.0)
    assert made.overdue(60.0, 69.0) == []
    why = made.stuck("default", 60.0, 40.0)
    assert "1 pods do not start: sidecar: ErrImagePull: no such image" in why
    assert "next try in 30 s" in why
    assert made.stuck("other", 60.0, 40.0) == ""
    assert [pod.name for pod in made.overdue(60.0, 71.0)] == ["a"]
    assert made.give_up("a", "start_failed", "late") is not None
    assert made.give_up("a", "start_failed", "late") is None
    beat = made.beat()
    assert beat is not None
    assert beat.pods == ()


def test_a_node_is_dead_when_it_alone_is_silent() -> None:
    """Said once; heard again, it is none."""
    made = cluster()
    made.see_pod(running("a", node="n2"), 1.0)
    silent = {"n2"}

    def judge(name: str, pods: list[Pod]) -> bool:
        assert [pod.name for pod in pods] == (["a"] if name == "n2" else [])
        return name in silent

    assert made.judge_nodes(judge, made.pods_on()) == {"n2"}
    assert made.avoid == ("n2",)
    assert made.judge_nodes(judge, made.pods_on()) == frozenset()
    silent.clear()
    assert made.judge_nodes(judge, made.pods_on()) == frozenset()
    assert made.avoid == ()


def test_when_nobody_is_heard_no_node_is_dead() -> None:
    """It is this process that hears nothing, or the servers between."""
    made = cluster()
    assert made.judge_nodes(lambda name, _: name == "n1", made.pods_on()) == {"n1"}
    assert made.judge_nodes(lambda _name, _: True, made.pods_on()) == frozenset()
    assert made.avoid == ("n1",)
    assert made.judge_nodes(lambda _name, _: None, made.pods_on()) == frozenset()
    assert made.avoid == (
        "n1",
    )  # this process was deaf for a while: what it knew holds until it hears more
    assert made.judge_nodes(lambda _name, _: False, made.pods_on()) == frozenset()
    assert made.avoid == ()


def test_a_class_on_dead_nodes_alone_is_not_there() -> None:
    """Kubernetes takes them for Ready for most of a minute."""
    made = cluster()
    made.nodes = {"n1": node_view("n1"), "n2": node_view("n2", ready=False)}
    made.dead = frozenset({"n1"})
    beat = made.beat()
    assert beat is not None
    assert beat.isolation["oci"] == "no node is Ready"


NAMES = st.sampled_from("abc")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("pending", "running", "failed", "restarted", "removed", "listed", "given_up")
        ),
        NAMES,
        st.sets(NAMES),
    ),
    max_size=30,
)


@settings(max_examples=300)
@given(STEPS)
def test_each_pods_end_is_told_exactly_once(steps: list[tuple[str, str, set[str]]]) -> None:
    """Whatever comes twice, late or not at all; and what lives is in the heartbeat, what is over is not."""
    made, told, lives = cluster(), Counter[str](), set[str]()
    generation = Counter[str]()

    def view(name: str, what: str) -> Gone | None:
        uid = f"{name}{generation[name]}"
        match what:
            case "pending":
                return made.see_pod(pod_view(name, uid=uid), 1.0)
            case "failed":
                return made.see_pod(running(name, uid=uid, phase="Failed", sidecar=ended(1)), 1.0)
            case "restarted":
                return made.see_pod(running(name, uid=uid, restarts=1), 1.0)
            case _:
                return made.see_pod(running(name, uid=uid), 1.0)

    for what, name, names in steps:
        found: list[Gone | None] = []
        if what == "listed":
            there = sorted(names)
            found += made.list_pods(
                [running(each, uid=f"{each}{generation[each]}") for each in there], 1.0
            )
            for each in lives - names:
                generation[each] += 1
            lives |= names
            lives &= names
        elif what == "removed":
            found.append(made.remove_pod(name, f"{name}{generation[name]}"))
            generation[name] += name in lives
            lives.discard(name)
        elif what == "given_up":
            found.append(made.give_up(name, "node_lost", ""))
        else:
            found.append(view(name, what))
            lives.add(name)
        told.update(f"{each.gone.pod}" for each in found if each is not None)
        beat = made.beat()
        assert beat is not None
        assert set(beat.pods) == {pod.name for pod in made.pods.values() if pod.over is None}
        assert set(made.pods) == lives
    for name, count in told.items():
        assert count <= generation[name] + (name in lives)
    for name, count in generation.items():
        assert told[name] >= count


def test_a_pod_that_is_over_stays_while_its_files_are_needed() -> None:
    """They go with its object. Of a dead node's pods nothing is left to wait for, nor of one that is ending anyway."""
    made = cluster()
    for name in ("a", "b", "c"):
        made.see_pod(running(name, node="n1" if name != "c" else "n2"), 1.0)
    for name in ("a", "c"):
        made.give_up(name, "deleted", "")
    assert {pod.name for pod, _ in made.over(set())} == {"a", "c"}

    assert [(pod.name, forced) for pod, forced in made.over({"a"})] == [("c", False)]
    made.dead = frozenset({"n1"})
    assert [(pod.name, forced) for pod, forced in made.over({"a", "c"})] == [("a", True)]


def test_files_are_needed_of_pods_that_own_a_session_or_are_rescued() -> None:
    """Until the rescue ends, in whatever way."""
    table = Table()
    owned = Record(
        session="session-1", tenant="t", pool="p", state="running", lane="batch", client_lane="batch", keep=True,
        accepted_ms=1, epoch=1, owner="a", node="n1",
    )  # fmt: skip
    rescuing = replace(owned, state="rescuing", epoch=2, owner="ckpt-n1", rescue_pod="a")
    queued = replace(rescuing, state="queued", owner=None)
    for seq, (record, needed) in enumerate([(owned, True), (rescuing, True), (queued, False)], 1):
        table.apply(record, seq, now=1.0)

        assert ("a" in table.pods_with_files()) == needed
