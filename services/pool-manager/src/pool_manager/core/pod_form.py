"""The form of a worker pod on Kubernetes: a trusted sidecar, and the sandbox beside it. A pure function."""

from __future__ import annotations

from typing import Any

from pool_manager.core.pod_halves import FILES_GROUP, halves
from pool_manager.core.pod_order import PodOrder
from pool_manager.core.pod_template import PodTemplate
from shared.pools import PoolSpec

PART_OF = "app.kubernetes.io/part-of"
PRODUCT = "agent-sandbox"
POOL = "agent-sandbox.dev/pool"
SLOT = "agent-sandbox.dev/slot"
ISOLATION = "agent-sandbox.dev/isolation"
LANES = "agent-sandbox.dev/lanes"
"""Annotation: the lanes that hold what the pod was started for."""
BESIDE = "agent-sandbox.dev/beside"
"""Label of all pods that must be on the node to which their pool's volume is attached."""


def pod_manifest(template: PodTemplate, pool: PoolSpec, order: PodOrder) -> dict[str, Any]:
    """Return the pod as the API server takes it.

    Args:
        template: what all pods have in common.
        pool: the pod's pool.
        order: which pod.
    """
    labels = {PART_OF: PRODUCT, POOL: pool.name, SLOT: order.slot, ISOLATION: order.isolation}
    if pool.on_one_node:
        labels[BESIDE] = pool.name
    annotations = {LANES: order.lanes}
    if order.isolation == "gvisor":
        annotations |= _shared_in_gvisor("channel")
    metadata: dict[str, Any] = {
        "name": order.pod,
        "namespace": template.namespace,
        "labels": labels,
        "annotations": annotations,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**_common(template, pool, order), **halves(template, pool, order)},
    }


def _common(template: PodTemplate, pool: PoolSpec, order: PodOrder) -> dict[str, Any]:
    """Return what does not depend on the pool: one session, no rights, no token, no names, no way to other processes."""
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "serviceAccountName": template.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": False,
        "hostNetwork": False,
        "terminationGracePeriodSeconds": template.stop_grace_s,
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroup": FILES_GROUP,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if pool.on_volume:
        # Else each start of a pod would change the group of all files of all sessions.
        spec["securityContext"]["fsGroupChangePolicy"] = "OnRootMismatch"
    if runtime := template.runtime_classes[order.isolation]:
        spec["runtimeClassName"] = runtime
    if order.user_namespace and order.isolation == "oci":
        spec["hostUsers"] = False
    if template.node_selector:
        spec["nodeSelector"] = dict(template.node_selector)
    if template.tolerations:
        spec["tolerations"] = list(template.tolerations)
    if template.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in template.image_pull_secrets]
    if template.priority_class:
        spec["priorityClassName"] = template.priority_class
    affinity = (_elsewhere(order.avoid) if order.avoid else {}) | beside(pool)
    if affinity:
        spec["affinity"] = affinity
    return spec


def beside(pool: PoolSpec) -> dict[str, Any]:
    """Return the affinity of a pod that mounts a volume which one node has at a time: to all others that do, if there are any."""
    if not pool.on_one_node:
        return {}
    term = {
        "labelSelector": {"matchLabels": {BESIDE: pool.name}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _elsewhere(nodes: tuple[str, ...]) -> dict[str, Any]:
    term = {
        "matchFields": [
            {"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes
        ]
    }
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _shared_in_gvisor(volume: str) -> dict[str, str]:
    """Return what lets a socket in a volume join both containers of a pod in gVisor: it then lies inside of the sandbox."""
    prefix = f"dev.gvisor.spec.mount.{volume}"
    return {f"{prefix}.type": "tmpfs", f"{prefix}.share": "pod", f"{prefix}.options": "rw"}
