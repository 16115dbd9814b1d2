"""Which isolation classes a Kubernetes cluster has, and why not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

import msgspec

from pool_manager.core.pod_template import PodClass, PodTemplate
from shared.kube.views import NodeView, RuntimeClassView, Taint, Toleration
from shared.pools import ISOLATION_CLASSES

HARD = frozenset({"NoSchedule", "NoExecute"})
POD_CLASSES: tuple[PodClass, ...] = get_args(PodClass)


def classes(
    template: PodTemplate,
    nodes: Iterable[NodeView],
    runtimes: Mapping[str, RuntimeClassView],
) -> dict[str, str]:
    """Return class -> empty if a pod of it would find a node, else why not.

    Args:
        template: which RuntimeClass is which class, and where pods may go.
        nodes: those that are not known to be dead.
        runtimes: the cluster's runtime classes by name.
    """
    ready = [node for node in nodes if node.is_ready]
    found = {
        name: "a pod on Kubernetes has class oci, gvisor or kata"
        for name in ISOLATION_CLASSES
        if name not in POD_CLASSES
    }
    for klass in POD_CLASSES:
        found[klass] = _why_not(klass, template, ready, runtimes)
    return found


def has_user_namespaces(
    template: PodTemplate, nodes: Iterable[NodeView], runtimes: Mapping[str, RuntimeClassView]
) -> bool:
    """Return whether pods of class `oci` get a user namespace: as the template says, else where every node can.

    Args:
        template: may say so itself.
        nodes: those that are not known to be dead.
        runtimes: the cluster's runtime classes by name.
    """
    if template.user_namespaces is not None:
        return template.user_namespaces
    runtime = runtimes.get(template.runtime_classes.get("oci", ""))
    handler = runtime.handler if runtime else ""
    asked = [n for n in nodes if template.node_selector.items() <= n.metadata.labels.items()]
    return bool(asked) and all(_can_map_users(node, handler) for node in asked)


def _can_map_users(node: NodeView, handler: str) -> bool:
    found = [
        each.features or {} for each in node.status.runtime_handlers or () if each.name == handler
    ]
    return any(features.get("userNamespaces") is True for features in found)


def _why_not(
    klass: PodClass,
    template: PodTemplate,
    ready: list[NodeView],
    runtimes: Mapping[str, RuntimeClassView],
) -> str:
    name = template.runtime_classes.get(klass)
    if name is None:
        return "the pod template names no RuntimeClass for it"
    runtime = runtimes.get(name)
    if name and runtime is None:
        return f"there is no RuntimeClass {name}"
    if not ready:
        return "no node is Ready"
    scheduling = runtime.scheduling if runtime else None
    selector = template.node_selector | (scheduling.node_selector if scheduling else {})
    tolerations = [
        *msgspec.convert(template.tolerations, list[Toleration]),
        *(scheduling.tolerations if scheduling else ()),
    ]
    chosen = [n for n in ready if selector.items() <= n.metadata.labels.items()]
    if not chosen:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(selector.items()))
        return f"no Ready node has the labels {labels}"
    open_ = [n for n in chosen if not _kept_off(n.spec.taints, tolerations)]
    if not open_:
        keys = sorted({taint.key for n in chosen for taint in n.spec.taints})
        return f"every Ready node has a taint that pods do not tolerate: {', '.join(keys)}"
    if runtime is not None and not any(_has_handler(n, runtime.handler) for n in open_):
        return f"no Ready node's container runtime has the handler {runtime.handler}"
    return ""


def _kept_off(taints: list[Taint], tolerations: list[Toleration]) -> bool:
    return any(
        taint.effect in HARD and not any(each.covers(taint) for each in tolerations)
        for taint in taints
    )


def _has_handler(node: NodeView, handler: str) -> bool:
    """Return whether a node says that it has a handler, or does not say which it has."""
    known = node.status.runtime_handlers
    return not known or any(each.name == handler for each in known)
