"""What a pod's object in the Kubernetes API means to a pool-manager."""

from __future__ import annotations

from typing import Any

import pytest

from pool_manager.core.kube_cluster import LABELS
from pool_manager.core.kube_pods import PLACE, read_lanes, read_pod, removed, write_lanes
from pool_manager.core.lost import PROCESS_DIED
from shared.testing.kube_objects import RUNS, ended, pod_view, running, waits

UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient cpu.",
}


@pytest.mark.parametrize(
    ("given", "stuck"),
    [
        ({}, ""),
        ({"sidecar": waits("PodInitializing")}, ""),
        ({"conditions": [UNSCHEDULABLE]}, "Unschedulable: 0/3 nodes are available"),
        ({"sidecar": waits("ErrImagePull", "no such host")}, "sidecar: ErrImagePull: no such host"),
        ({"sandbox": waits("ImagePullBackOff"), "sidecar": RUNS}, "sandbox: ImagePullBackOff"),
        (
            {"sidecar": waits("CreateContainerConfigError", "secret")},
            "sidecar: CreateContainerConf",
        ),
    ],
)
def test_why_a_pod_does_not_start_is_said_as_kubernetes_says_it(
    given: dict[str, Any], stuck: str
) -> None:
    """What is only on its way is no reason."""
    pod = read_pod(pod_view(**given), LABELS)
    assert pod.stuck.startswith(stuck)
    assert bool(pod.stuck) == bool(stuck)
    assert pod.over is None


@pytest.mark.parametrize(
    ("given", "cause", "died"),
    [
        ({"phase": "Succeeded", "sidecar": ended(0, "Completed")}, "exited", True),
        ({"phase": "Failed", "sidecar": ended(1)}, "exited", True),
        ({"phase": "Failed", "sidecar": ended(137, "OOMKilled")}, "killed", True),
        ({"phase": "Failed", "sidecar": ended(1), "deleted": True}, "deleted", False),
        ({"phase": "Failed", "reason": "Evicted", "sidecar": ended(137)}, "evicted", False),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, "start_failed", False),
        ({"phase": "Running", "sidecar": RUNS, "restarts": 1, "last": ended(137)}, "killed", True),
        ({"phase": "Running", "sidecar": ended(1), "restarts": 1}, "exited", True),
    ],
)
def test_how_a_pod_ended(given: dict[str, Any], cause: str, *, died: bool) -> None:
    """Only what ended by itself, or was killed by no order, counts as the death of a worker's process."""
    over = read_pod(pod_view(node="n1", **given), LABELS).over
    assert over is not None
    assert (over.cause, over.node) == (cause, "n1")
    assert (over.cause in PROCESS_DIED) == died


OOM = ended(128, "OOMKilled")


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({"sidecar": OOM, "sandbox": OOM}, "oom"),
        ({"sidecar": ended(128, "StartError"), "last": OOM, "sandbox": OOM, "restarts": 1}, "oom"),
        ({"sidecar": ended(128, "StartError"), "last": OOM, "sandbox": OOM}, "oom"),
        ({"sidecar": OOM, "sandbox": ended(0)}, "exited"),
        ({"sidecar": ended(1), "sandbox": OOM}, "exited"),
    ],
)
def test_a_pod_that_its_sandbox_s_memory_has_ended(given: dict[str, Any], cause: str) -> None:
    """Both containers end by it, as the kubelet says of gVisor; one of them alone is something else."""
    phase = "Running" if "restarts" in given else "Failed"
    over = read_pod(pod_view(phase=phase, **given), LABELS).over
    assert over is not None
    assert over.cause == cause
    assert over.cause in PROCESS_DIED


def test_an_exit_code_above_128_is_a_signal() -> None:
    """As shells and kubelets have it."""
    over = read_pod(pod_view(phase="Failed", sidecar=ended(137)), LABELS).over
    assert over is not None
    assert (over.signal, over.exit_code) == (9, None)
    over = read_pod(pod_view(phase="Failed", sidecar=ended(3)), LABELS).over
    assert over is not None
    assert (over.signal, over.exit_code) == (None, 3)
    assert "exit code 3" in over.detail


def test_a_pod_that_runs_is_started_and_not_over() -> None:
    """A pod that was told to end lives until it has ended."""
    pod = read_pod(running(deleted=True), LABELS)
    assert (pod.is_started, pod.is_ending, pod.over) == (True, True, None)


def test_a_pod_whose_object_is_gone_was_deleted_unless_it_ended_before() -> None:
    """Its last state says how."""
    assert removed(read_pod(running(), LABELS)).cause == "deleted"
    assert removed(read_pod(pod_view(), LABELS)).node == PLACE
    before = read_pod(running(phase="Failed", sidecar=ended(1)), LABELS)
    assert removed(before).cause == "exited"


def test_lanes_travel_with_the_pod() -> None:
    """What is no lane is left out: the object is Kubernetes', and anybody with a right to it can change it."""
    lanes = (("interactive", 2), ("batch", 0))
    assert read_lanes(write_lanes(lanes)) == lanes
    assert read_lanes("interactive.2 interactive.3 nonsense batch. .1 x.0 batch.-1") == (lanes[0],)
