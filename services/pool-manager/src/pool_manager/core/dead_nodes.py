"""Whether a node that holds a volume of its own is surely off, and what is to be done about it. Pure.

Silence is no proof: a node that is merely cut off still writes. Kubernetes' `NotReady` is silence as well. A proof is the word of
somebody who sees the machine itself: the cloud, by the taint that its controller sets on instances that are shut down, or the
cluster's operator, by an annotation that names the very boot of the node which is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, Literal

import msgspec

from shared.kube.views import NodeView, Taint

IS_OFF = "agent-sandbox.dev/is-off"
"""Annotation of a node: the operator's word that it is off. Its value is the node's boot id (`status.nodeInfo.bootID`), so that
the word of a former outage says nothing of the next one."""
SHUT_DOWN = "node.cloudprovider.kubernetes.io/shutdown"
"""Taint: the cloud says that the node's instance is shut down."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint: Kubernetes forgets the node's pods and detaches its volumes at once."""
OURS = "agent-sandbox"
"""Value of that taint where we have set it; only such a one is taken back by us."""

Act = Literal["out", "back"]
"""Take a node out of service; or take that back, and the word that it is off, since it is not."""


class Blocked(msgspec.Struct, frozen=True):
    """A node that does not let go of a volume."""

    node: str
    why: str
    act: Act | None = None


def proof(node: NodeView) -> str:
    """Return who says that a node is off; empty: nobody."""
    if any(taint.key == SHUT_DOWN for taint in node.spec.taints):
        return "its cloud says that it is shut down"
    word, boot = node.metadata.annotations.get(IS_OFF, ""), node.status.node_info.boot_id
    return "its operator says that it is off" if word and word == boot else ""


def judge(node: NodeView, *, is_heard: bool, is_silent: bool) -> Blocked | None:
    """Return how a node keeps a volume that is attached to it, and what to do; None: it is alive, and does not.

    Args:
        node: as the API server has it.
        is_heard: its checkpointer or a worker on it was heard just now.
        is_silent: it was heard before, and is not now. Neither: nobody here ever heard it.
    """
    name, taint, ready = node.metadata.name, _out_of_service(node), _ready(node)
    if ready == "True" and is_named(node) and (is_heard or _is_over(node)):
        return Blocked(name, f"node {name} is back: it is taken into service", "back")
    if is_heard:
        return None
    if ready == "True":
        why = "is said to be off" if proof(node) else "is silent" if is_silent else ""
        late = "and Kubernetes has not noticed yet (some 47 s)"
        return Blocked(name, f"node {name} {why}, {late}") if why else None
    if taint is not None:
        return Blocked(name, f"node {name} is out of service: Kubernetes detaches (some 20 s)")
    if ready == "False":
        return Blocked(name, f"node {name} says itself that it is not ready, so it is not off: kubectl describe node {name}")  # fmt: skip
    if who := proof(node):
        return Blocked(name, f"node {name} is off, {who}: it is taken out of service", "out")
    return Blocked(
        name,
        f"node {name} is silent, and nothing says that it is off: one that is cut off still writes. If it is off: "
        f"{how_to_say(node)}; or start it",
    )


def how_to_say(node: NodeView) -> str:
    """Return the command by which an operator says that a node is off."""
    return (
        f"kubectl annotate node {node.metadata.name} {IS_OFF}={node.status.node_info.boot_id or 'ITS-BOOT-ID'}"
    )  # fmt: skip


def is_named(node: NodeView) -> bool:
    """Return whether a node is said to be off, or was taken out of service for that."""
    return _is_marked(node) or IS_OFF in node.metadata.annotations


def holders(
    nodes: Mapping[str, NodeView], names: Iterable[str], heard: Set[str], silent: Set[str]
) -> list[Blocked]:
    """Return how nodes keep a volume.

    Args:
        nodes: all of the cluster.
        names: those that have pods with the volume, by the API server.
        heard: those of which anybody was heard just now.
        silent: those that were heard, and are not now.
    """
    found = []
    for name in sorted(set(names) - {""}):
        node = nodes.get(name)
        if node is None:
            found.append(
                Blocked(name, f"node {name} is none of the cluster's any more: Kubernetes detaches within 6 minutes")
            )  # fmt: skip
            continue
        blocked = judge(node, is_heard=name in heard, is_silent=name in silent)
        if blocked is not None:
            found.append(blocked)
    return found


def patch(node: NodeView, act: Act) -> list[dict[str, Any]]:
    """Return the JSON patch that does it, for this very state of the node alone."""
    version = node.metadata.resource_version
    found = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
    if act == "back":
        if _is_marked(node):
            index = [taint.key for taint in node.spec.taints].index(OUT_OF_SERVICE)
            found.append({"op": "remove", "path": f"/spec/taints/{index}"})
        if IS_OFF in node.metadata.annotations:
            path = f"/metadata/annotations/{IS_OFF.replace('/', '~1')}"
            found.append({"op": "remove", "path": path})
        return found
    taint = {"key": OUT_OF_SERVICE, "value": OURS, "effect": "NoExecute"}
    path, value = ("/spec/taints/-", taint) if node.spec.taints else ("/spec/taints", [taint])
    return [*found, {"op": "add", "path": path, "value": value}]


def _ready(node: NodeView) -> str:
    """Return `True`; `False`: the word of the node's own kubelet, which runs; `Unknown`: that one says nothing any more."""
    return next((c.status for c in node.status.conditions if c.type == "Ready"), "Unknown")


def _is_over(node: NodeView) -> bool:
    """Return whether the outage for which a node was marked is over where it is ready: we mark those alone that are not, and
    the word of another boot is that of a former outage. The word of this very boot may be ahead of what Kubernetes knows."""
    word = node.metadata.annotations.get(IS_OFF, "")
    return _is_marked(node) or word != node.status.node_info.boot_id


def _is_marked(node: NodeView) -> bool:
    taint = _out_of_service(node)
    return taint is not None and taint.value == OURS


def _out_of_service(node: NodeView) -> Taint | None:
    return next((taint for taint in node.spec.taints if taint.key == OUT_OF_SERVICE), None)
