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
    heard_at = world.checkpointers.heard_at(node_token(node))
    if heard_at is None:
        return None
    last = heard_at
    for pod in pods:
        worker = world.detector.worker(pod.name)
        if worker is not None:
            last = max(last, worker.seen)
    return now - last > fence_s
