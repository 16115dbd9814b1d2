"""Which Kubernetes nodes are dead, long before Kubernetes knows: no sign of life of anybody on them. Pure."""

from __future__ import annotations

from pool_manager.core.kube_pods import Pod
from pool_manager.core.world import World
from shared.kube_names import node_token

SETTLE_S = 2.5
"""After this process heard nothing for a while, since its server died for one: so soon whoever lives is heard again, by
another server. A whole node's silence needs no more proof then, a single worker's does."""


def is_silent(world: World, fence_s: float, node: str, pods: list[Pod], now: float) -> bool | None:
    """Return whether all signs of life of a node are missing; None: none can be missed.

    A node's checkpointer and each of its workers speak every two seconds or more often. All of them silent for T_fence:
    no program, no pod, no process alone can be the cause.

    Args:
        world: who was heard when.
        fence_s: T_fence.
        node: Kubernetes' name of it.
        pods: those that live there by the API.
        now: monotonic clock.
    """
    if now - world.hearing.since <= min(SETTLE_S, fence_s):
        return None
    if world.checkpointers.heard_at(node_token(node)) is None:
        return None
    return now - _last_sign(world, node, pods) > fence_s


def is_heard(world: World, fence_s: float, node: str, pods: list[Pod], now: float) -> bool:
    """Return whether anybody on a node spoke within T_fence: its checkpointer or a worker, whichever was ever heard."""
    return now - _last_sign(world, node, pods) <= fence_s


def misses_nothing(world: World, fence_s: float, now: float) -> bool:
    """Return whether who was not heard for T_fence did not speak: this process was connected, and before that settled."""
    hearing = world.hearing
    return hearing.connected and now - hearing.since > SETTLE_S + fence_s


def _last_sign(world: World, node: str, pods: list[Pod]) -> float:
    signs = [world.checkpointers.heard_at(node_token(node))]
    workers = (world.detector.worker(pod.name) for pod in pods)
    signs += [worker.seen for worker in workers if worker is not None]
    return max((sign for sign in signs if sign is not None), default=float("-inf"))
