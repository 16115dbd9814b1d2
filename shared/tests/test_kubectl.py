"""What kubectl's words and a cluster's objects mean."""

from __future__ import annotations

from typing import Any

import pytest

from shared.errors import (
    Conflict,
    Forbidden,
    InvalidMessage,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)
from shared.kubectl import Kubectl, is_ready, pod_problem, workload_problems
from shared.kubectl.call import error_of


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('Error from server (NotFound): pods "a" not found', NotFound),
        ('Error from server (Forbidden): pods is forbidden: User "x" cannot list', Forbidden),
        ("error: You must be logged in to the server (Unauthorized)", Forbidden),
        ('Error from server (AlreadyExists): namespaces "a" already exists', Conflict),
        ("The connection to the server 127.0.0.1:1 was refused - did you", Unavailable),
        ("Unable to connect to the server: dial tcp: lookup nowhere", Unavailable),
        ("Error from server (Timeout): the server was unable to return", OutcomeUnknown),
        ('error: context "x" does not exist', Rejected),
        ("", Rejected),
    ],
)
def test_what_kubectl_says_becomes_an_error_of_ours(said: str, kind: type[ServiceError]) -> None:
    """With its own words, without its warnings."""
    found = error_of(
        ("get", "pods", "a", "-o", "json"),
        f"Warning: version skew\nE0102 03:04:05 skew.go\n{said}\n",
    )

    assert type(found) is kind
    assert str(found).startswith("kubectl get pods a: ")
    assert "skew" not in str(found)
    assert (said or "nothing") in str(found)


def test_without_kubectl_it_says_where_to_get_it() -> None:
    """Not a traceback of a missing file."""
    with pytest.raises(NotFound, match="is not installed: https"):
        Kubectl(program="kubectl-that-nobody-has").raw("/version")


def test_an_answer_that_is_no_json_is_refused() -> None:
    """A proxy's log-in page, for instance."""
    with pytest.raises(InvalidMessage, match="no JSON"):
        Kubectl(program="echo").get("pods", "a")


def test_a_context_goes_before_the_words() -> None:
    """Every call is for the cluster that was named."""
    said = Kubectl(program="echo", context="there").run("get", "pods")

    assert said.split() == ["--context=there", "get", "pods"]


def workload(kind: str = "StatefulSet", **status: int) -> dict[str, Any]:
    """Return a workload that wants three pods."""
    return {
        "kind": kind,
        "metadata": {"name": "nats", "namespace": "ours", "generation": 2},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "nats"}}},
        "status": {"observedGeneration": 2, "readyReplicas": 3, "updatedReplicas": 3} | status,
    }


def pod(name: str, **status: object) -> dict[str, Any]:
    """Return a pod of that workload."""
    return {
        "metadata": {"name": name, "namespace": "ours", "labels": {"app": "nats", "more": "x"}},
        "status": {"phase": "Pending"} | status,
    }


def test_a_workload_is_ready_when_all_pods_are_of_its_newest_form() -> None:
    """Not while the controller has not even seen the change, nor while old pods stand for new ones."""
    assert is_ready(workload())
    assert not is_ready(workload(observedGeneration=1))
    assert not is_ready(workload(updatedReplicas=2))
    assert not is_ready(workload(readyReplicas=2))
    wanted = {"desiredNumberScheduled": 2, "numberReady": 1, "updatedNumberScheduled": 2}
    assert not is_ready(workload("DaemonSet", **wanted))
    assert is_ready(workload("DaemonSet", **wanted | {"numberReady": 2}))


def test_why_a_workload_is_not_ready_is_told_by_its_pods_and_their_warnings() -> None:
    """What a person would look up with four commands."""
    waiting = {"name": "nats", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "m"}}}
    condition = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    pods = [
        pod("nats-0", containerStatuses=[waiting]),
        pod("nats-1", conditions=[condition]),
        pod("nats-2", phase="Running", conditions=[{"type": "Ready", "status": "True"}]),
        pod("other") | {"metadata": {"name": "other", "namespace": "ours", "labels": {}}},
    ]
    about = {"namespace": "ours", "name": "nats-0"}
    events = [
        {"type": "Warning", "reason": "Failed", "message": "no image", "involvedObject": about},
        {"type": "Normal", "reason": "Pulled", "message": "x", "involvedObject": about},
    ]

    (found,) = workload_problems([workload(readyReplicas=1), workload()], pods, events)

    assert str(found) == (
        "StatefulSet ours/nats: 1 of 3 ready; nats-0: nats: ImagePullBackOff: m; "
        "nats-1: not scheduled: 0/3 nodes are available; Failed: no image"
    )


def test_a_container_that_ended_badly_is_told_with_its_code() -> None:
    """Also one that waits to be started again."""
    ended = {"exitCode": 2, "reason": "Error"}
    assert pod_problem(
        pod("a", containerStatuses=[{"name": "c", "state": {"terminated": ended}}])
    ) == ("c ended with 2: Error")
    crashing = {
        "name": "c",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": ended},
    }
    assert pod_problem(pod("a", containerStatuses=[crashing])) == (
        "c: CrashLoopBackOff, ended with 2"
    )
    assert pod_problem(pod("a", phase="Succeeded")) == ""
