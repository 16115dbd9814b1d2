"""What a pool with a shared volume has on Kubernetes beside its pods: the claim, and a Deployment of keepers. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from pool_manager.core.pod_form import BESIDE, PART_OF, PRODUCT, beside
from pool_manager.core.pod_halves import FILES_GROUP, SANDBOX_UID, claim_name
from pool_manager.core.pod_template import PodTemplate
from shared.pools import PoolSpec, Volume

VOLUME_OF = "agent-sandbox.dev/volume-of"
"""Label of both: which pool's."""
FORM = "agent-sandbox.dev/form"
"""Annotation of the Deployment: a digest of what it was made by."""
KEEPER_UID = 1002
"""Of whom sandboxes may not write what is the keepers': the folders that hold sessions' folders."""
KEEPERS = 2
SECRET = "agent-sandbox-keeper"  # noqa: S105 - a name
_PROBES_PORT = 9090
_OWN, _CA = "/etc/agent-sandbox/own", "/etc/agent-sandbox/ca"
_NAME = "app.kubernetes.io/name"
_KEEPER = "volume-keeper"


def volume_of(pool: PoolSpec) -> Volume:
    """Return where a pool keeps its workspaces."""
    return pool.volume or Volume()


def claim_manifest(template: PodTemplate, pool: PoolSpec) -> dict[str, Any]:
    """Return the claim of a pool's volume. It is never removed by us: it holds what sessions own."""
    volume = volume_of(pool)
    spec: dict[str, Any] = {
        "accessModes": [volume.access_mode],
        "resources": {"requests": {"storage": f"{volume.size_gib}Gi"}},
    }
    if volume.storage_class:
        spec["storageClassName"] = volume.storage_class
    metadata = {
        "name": claim_name(pool.name),
        "namespace": template.namespace,
        "labels": {PART_OF: PRODUCT, VOLUME_OF: pool.name},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
    }


def keepers_manifest(template: PodTemplate, pool: PoolSpec) -> dict[str, Any]:
    """Return the Deployment of a pool's keepers."""
    labels = {_NAME: _KEEPER, PART_OF: PRODUCT, VOLUME_OF: pool.name}
    if pool.on_one_node:
        labels[BESIDE] = pool.name
    spec = {
        "replicas": KEEPERS,
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "selector": {"matchLabels": {_NAME: _KEEPER, VOLUME_OF: pool.name}},
        "template": {"metadata": {"labels": labels}, "spec": _pod(template, pool)},
    }
    digest = hashlib.blake2b(msgspec.json.encode(spec), digest_size=8).hexdigest()
    metadata = {
        "name": f"keeper-{pool.name}",
        "namespace": template.namespace,
        "labels": labels,
        "annotations": {FORM: digest},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _pod(template: PodTemplate, pool: PoolSpec) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [
        {"name": "volume", "persistentVolumeClaim": {"claimName": claim_name(pool.name)}},
        {"name": "own", "secret": {"secretName": SECRET, "defaultMode": 0o440}},
    ]
    if template.nats_ca_config_map:
        volumes.append({"name": "ca", "configMap": {"name": template.nats_ca_config_map}})
    whole = {"name": "volume", "mountPath": "/volume"}
    begin = _container(template, "begin", ["volume_keeper.begin", "/volume"], [whole], KEEPER_UID)
    trash = {"name": "volume", "mountPath": "/trash", "subPath": "trash"}
    remove = _container(
        template, "remover", ["volume_keeper.remove", "/trash"], [trash], SANDBOX_UID
    )
    spec: dict[str, Any] = {
        "serviceAccountName": template.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 10,
        "affinity": beside(pool) or _apart(pool),
        # A dead node's keeper is replaced soon; the other one works meanwhile.
        "tolerations": [
            *template.tolerations,
            *(
                {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}
                for why in ("unreachable", "not-ready")
            ),
        ],
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroup": FILES_GROUP,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [begin],
        "containers": [_keeper(template, pool, whole), remove],
        "volumes": volumes,
    }  # fmt: skip
    if template.node_selector:
        spec["nodeSelector"] = dict(template.node_selector)
    if template.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in template.image_pull_secrets]
    if template.priority_class:
        spec["priorityClassName"] = template.priority_class
    return spec


def _keeper(template: PodTemplate, pool: PoolSpec, whole: dict[str, Any]) -> dict[str, Any]:
    told = {
        "KEEPER_POOL": pool.name,
        "KEEPER_SERVERS": ",".join(template.nats_servers),
        "KEEPER_CREDENTIAL_FILE": f"{_OWN}/keeper.creds",
        "KEEPER_PROBES": f"0.0.0.0:{_PROBES_PORT}",
    }
    mounts = [whole, {"name": "own", "mountPath": _OWN, "readOnly": True}]
    if template.nats_ca_config_map:
        told["KEEPER_CA_FILE"] = f"{_CA}/ca.crt"
        mounts.append({"name": "ca", "mountPath": _CA, "readOnly": True})
    made = _container(template, "keeper", ["volume_keeper"], mounts, KEEPER_UID)
    name = {"name": "KEEPER_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    made["env"] = [name, *({"name": key, "value": value} for key, value in told.items())]
    made["ports"] = [{"name": "probes", "containerPort": _PROBES_PORT}]
    ready = {"path": "/readyz", "port": "probes"}
    lives = {"path": "/livez", "port": "probes"}
    made["readinessProbe"] = {"httpGet": ready, "periodSeconds": 2, "timeoutSeconds": 2, "failureThreshold": 2}  # fmt: skip
    made["livenessProbe"] = {"httpGet": lives, "periodSeconds": 10, "timeoutSeconds": 3, "failureThreshold": 6}  # fmt: skip
    return made


def _container(
    template: PodTemplate, name: str, program: list[str], mounts: list[dict[str, Any]], uid: int
) -> dict[str, Any]:
    return {
        "name": name,
        "image": template.services_image,
        "imagePullPolicy": template.image_pull_policy,
        "command": ["python", "-m", *program],
        "securityContext": {
            "runAsUser": uid,
            "runAsGroup": FILES_GROUP,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {
            "requests": {"cpu": "10m", "memory": "48Mi"},
            "limits": {"cpu": "1", "memory": "192Mi"},
        },
        "volumeMounts": mounts,
    }


def _apart(pool: PoolSpec) -> dict[str, Any]:
    """Return that keepers of a pool go to different nodes, where there are enough."""
    term = {
        "labelSelector": {"matchLabels": {_NAME: _KEEPER, VOLUME_OF: pool.name}},
        "topologyKey": "kubernetes.io/hostname",
    }
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
