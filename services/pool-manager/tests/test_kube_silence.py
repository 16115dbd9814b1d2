"""When a Kubernetes node is dead: its checkpointer and all its workers are silent for T_fence."""

from __future__ import annotations

import pytest

from pool_manager.core.kube_cluster import LABELS
from pool_manager.core.kube_pods import Pod, read_pod
from pool_manager.core.kube_silence import SETTLE_S, is_heard, is_silent, misses_nothing
from pool_manager.core.lost import Bounds
from pool_manager.core.world import World
from shared.messages import WorkerBeat
from shared.pools import PoolSpec
from shared.testing.kube_objects import running
from shared.workspace import CheckpointerBeat

NODE = "ip-10-0-0-1.example.internal"
TOKEN = "ip-10-0-0-1_example_internal"
FENCE_S = 4.0


@pytest.fixture
def world() -> World:
    """What a pool-manager knows that has just started."""
    return World("pm", [PoolSpec(name="default")], Bounds(), now=0.0)


@pytest.fixture
def pods() -> list[Pod]:
    """Two pods on the node."""
    return [read_pod(running(name, node=NODE), LABELS) for name in ("default-0-1", "default-1-1")]


def checkpointer(world: World, now: float) -> None:
    """The node's checkpointer says that it lives."""
    world.checkpointers.heard(CheckpointerBeat(node=TOKEN, started_ms=1), now)


def worker(world: World, name: str, now: float) -> None:
    """A worker says that it lives."""
    beat = WorkerBeat(worker=name, pool="default", node=TOKEN, state="warm")
    world.on_worker(beat, now)


def silent(world: World, pods: list[Pod], now: float) -> bool | None:
    """Return the verdict on the node."""
    return is_silent(world, FENCE_S, NODE, pods, now)


def test_a_node_whose_checkpointer_and_workers_are_silent_is_dead(
    world: World, pods: list[Pod]
) -> None:
    """After T_fence, not before."""
    checkpointer(world, 10.0)
    for pod in pods:
        worker(world, pod.name, 11.0)
    assert silent(world, pods, 15.0) is False
    assert silent(world, pods, 15.1) is True


@pytest.mark.parametrize("heard", ["checkpointer", "default-1-1"])
def test_one_sign_of_life_is_enough(world: World, pods: list[Pod], heard: str) -> None:
    """A checkpointer that is replaced, a worker that hangs: the node lives."""
    checkpointer(world, 10.0)
    for pod in pods:
        worker(world, pod.name, 10.0)
    if heard == "checkpointer":
        checkpointer(world, 100.0)
    else:
        worker(world, heard, 100.0)
    assert silent(world, pods, 103.0) is False


def test_without_a_checkpointer_that_was_heard_silence_proves_nothing(
    world: World, pods: list[Pod]
) -> None:
    """A worker alone may hang."""
    for pod in pods:
        worker(world, pod.name, 10.0)
    assert silent(world, pods, 100.0) is None


def test_who_was_deaf_itself_gives_no_verdict(world: World, pods: list[Pod]) -> None:
    """Until whoever lives has had the time to be heard again; silence counts from before, so that a server's death costs no
    second T_fence."""
    checkpointer(world, 10.0)
    world.was_deaf(12.0)
    assert silent(world, pods, 12.0 + SETTLE_S) is None
    assert silent(world, pods, 12.1 + SETTLE_S) is True
    world.was_deaf(20.0)
    checkpointer(world, 21.0)
    assert silent(world, pods, 25.0) is False
    assert silent(world, pods, 25.1) is True


def test_a_pod_that_was_never_heard_says_nothing_about_its_node(
    world: World, pods: list[Pod]
) -> None:
    """It may wait for its image there."""
    checkpointer(world, 10.0)
    assert silent(world, pods, 13.0) is False
    assert silent(world, pods, 15.0) is True


def test_a_worker_that_speaks_is_heard_also_where_no_checkpointer_ever_was(
    world: World, pods: list[Pod]
) -> None:
    """Such a node is alive, whoever says that it is off."""
    assert not is_heard(world, FENCE_S, NODE, pods, 10.0)
    worker(world, pods[0].name, 10.0)
    assert is_heard(world, FENCE_S, NODE, pods, 14.0)
    assert not is_heard(world, FENCE_S, NODE, pods, 14.1)
    checkpointer(world, 20.0)
    assert is_heard(world, FENCE_S, NODE, [], 24.0)


def test_who_was_deaf_knows_nothing_of_who_spoke_meanwhile(world: World) -> None:
    """Not before everybody had T_fence to be heard again."""
    world.hearing.cut()
    assert not misses_nothing(world, FENCE_S, 100.0)
    world.hearing.again(100.0)
    assert not misses_nothing(world, FENCE_S, 100.0 + SETTLE_S + FENCE_S)
    assert misses_nothing(world, FENCE_S, 100.1 + SETTLE_S + FENCE_S)
