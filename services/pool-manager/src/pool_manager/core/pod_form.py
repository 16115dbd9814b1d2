"""The form of a worker pod on Kubernetes: a trusted sidecar, and the sandbox beside it. A pure function."""

from __future__ import annotations

from typing import Any

import msgspec

from pool_manager.core.pod_template import PodClass, PodTemplate
from shared.enrolment import AUDIENCE
from shared.pools import PoolSpec

PART_OF = "app.kubernetes.io/part-of"
PRODUCT = "agent-sandbox"
POOL = "agent-sandbox.dev/pool"
SLOT = "agent-sandbox.dev/slot"
ISOLATION = "agent-sandbox.dev/isolation"
LANES = "agent-sandbox.dev/lanes"
"""Annotation: the lanes that hold what the pod was started for."""


class PodOrder(msgspec.Struct, frozen=True):
    """One pod that is to be started."""

    pod: str
    """Its name, and its worker's."""
    slot: str
    isolation: PodClass
    """Class that it must have: a key of the template's `runtime_classes`."""
    lanes: str = ""
    """Of the annotation."""
    avoid: tuple[str, ...] = ()
    """Kubernetes nodes that are known to be dead before Kubernetes knows."""


def pod_manifest(template: PodTemplate, pool: PoolSpec, order: PodOrder) -> dict[str, Any]:
    """Return the pod as the API server takes it.

    Args:
        template: what all pods have in common.
        pool: the pod's pool.
        order: which pod.
    """
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "serviceAccountName": template.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": template.stop_grace_s,
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroup": 2000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [_sidecar(template, pool)],
        "containers": [_sandbox(template, pool)],
        "volumes": [
            {"name": "workspace", "emptyDir": {"sizeLimit": f"{pool.limits.disk_mib}Mi"}},
            {"name": "channel", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "sidecar", "emptyDir": {"sizeLimit": "16Mi"}},
            {
                "name": "enrol",
                "projected": {
                    "sources": [
                        {"secret": {"name": template.enrol_secret}},
                        {
                            "serviceAccountToken": {
                                "audience": AUDIENCE,
                                "expirationSeconds": 600,
                                "path": "token",
                            }
                        },
                    ]
                },
            },
        ],
    }
    if runtime := template.runtime_classes[order.isolation]:
        spec["runtimeClassName"] = runtime
    if template.node_selector:
        spec["nodeSelector"] = dict(template.node_selector)
    if template.tolerations:
        spec["tolerations"] = list(template.tolerations)
    if template.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in template.image_pull_secrets]
    if template.priority_class:
        spec["priorityClassName"] = template.priority_class
    if order.avoid:
        spec["affinity"] = _elsewhere(order.avoid)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": order.pod,
            "namespace": template.namespace,
            "labels": {
                PART_OF: PRODUCT,
                POOL: pool.name,
                SLOT: order.slot,
                ISOLATION: order.isolation,
            },
            "annotations": {LANES: order.lanes},
        },
        "spec": spec,
    }


def _elsewhere(nodes: tuple[str, ...]) -> dict[str, Any]:
    term = {
        "matchFields": [
            {"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes
        ]
    }
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _sidecar(template: PodTemplate, pool: PoolSpec) -> dict[str, Any]:
    sizes = template.sidecar
    return {
        "name": "sidecar",
        "image": template.worker_image,
        "imagePullPolicy": template.image_pull_policy,
        "restartPolicy": "Always",
        "env": [
            {"name": "POOL", "value": pool.name},
            {"name": "NATS_SERVERS", "value": ",".join(template.nats_servers)},
            _downward("POD_NAME", "metadata.name"),
            _downward("POD_UID", "metadata.uid"),
            _downward("NODE_NAME", "spec.nodeName"),
        ],
        "securityContext": _confined(1001),
        "resources": {
            "requests": {"cpu": str(sizes.cpu), "memory": f"{sizes.memory_mib}Mi"},
            "limits": {"cpu": str(sizes.cpu_max), "memory": f"{sizes.memory_max_mib}Mi"},
        },
        "volumeMounts": [
            {"name": "workspace", "mountPath": "/workspace"},
            {"name": "channel", "mountPath": "/run/agent"},
            {"name": "sidecar", "mountPath": "/run/sidecar"},
            {"name": "enrol", "mountPath": "/run/enrol", "readOnly": True},
        ],
    }


def _sandbox(template: PodTemplate, pool: PoolSpec) -> dict[str, Any]:
    return {
        "name": "sandbox",
        "image": pool.image or template.sandbox_image,
        "imagePullPolicy": template.image_pull_policy,
        "securityContext": _confined(1000),
        "resources": {
            "requests": {
                "cpu": str(min(template.sandbox_cpu, pool.limits.cpu)),
                "memory": f"{min(template.sandbox_memory_mib, pool.limits.memory_mib)}Mi",
            },
            "limits": {"cpu": str(pool.limits.cpu), "memory": f"{pool.limits.memory_mib}Mi"},
        },
        "volumeMounts": [
            {"name": "workspace", "mountPath": "/workspace"},
            {"name": "channel", "mountPath": "/run/agent"},
        ],
    }


def _confined(uid: int) -> dict[str, Any]:
    return {
        "runAsUser": uid,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _downward(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
