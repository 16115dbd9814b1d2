"""The two containers of a worker pod, and the volumes between them. Pure."""

from __future__ import annotations

from typing import Any

from pool_manager.core.pod_order import PodOrder
from pool_manager.core.pod_template import PodClass, PodTemplate
from shared.enrolment import AUDIENCE
from shared.pools import PoolSpec
from shared.volumes import FOLDER

SANDBOX_UID, SIDECAR_UID = 1000, 1001
FILES_GROUP = 2000
"""Both containers' group, and that of all volumes."""
DRAIN_SPARE_S = 5
"""Between the longest orderly end of a sidecar and the kill of its pod."""

_WORKSPACE, _CHANNEL, _OWN, _ENROL = "/workspace", "/run/agent", "/run/sidecar", "/run/enrol"
_SOCKET = f"{_CHANNEL}/runner.sock"
_PYTHON = ["python3", "-I", "-S"]
_WORKER_PROGRAM, _SANDBOX_PROGRAM = "/opt/agent-sandbox/worker", "/opt/agent-sandbox/sandbox"
_LOGS_MIB = 64
"""A container's log, beside what its pod has in volumes; past it the kubelet evicts the pod."""
_SCHEDULED_DISK_MIB = 32
"""What a pod asks for of its node's disk: most sandboxes use little, and the kubelet watches those that do not."""
_CA_FILE = "ca.crt"


def halves(template: PodTemplate, pool: PoolSpec, order: PodOrder) -> dict[str, Any]:
    """Return the part of the pod's spec that is its containers and volumes.

    The sidecar is an init container that stays (`restartPolicy: Always`): it is up before the sandbox, and ends after it.
    """
    return {
        "initContainers": [_sidecar(template, pool, order.isolation)],
        "containers": [_sandbox(template, pool, order)],
        "volumes": _volumes(template, pool),
    }


def _sidecar(template: PodTemplate, pool: PoolSpec, isolation: PodClass) -> dict[str, Any]:
    sizes = template.sidecar
    told = {
        "POD_POOL": pool.name,
        "POD_ISOLATION": isolation,
        "POD_SERVERS": ",".join(template.nats_servers),
        "POD_DRAIN_S": str(max(template.stop_grace_s - DRAIN_SPARE_S, 1)),
    }
    if template.nats_ca_config_map:
        told["POD_CA_FILE"] = f"{_ENROL}/{_CA_FILE}"
    measured = {"name": "workspace", "mountPath": _WORKSPACE, "readOnly": True}
    if not template.checkpointer:
        told["POD_CHECKPOINTER"] = "false"
    return {
        "name": "sidecar",
        "image": template.worker_image,
        "imagePullPolicy": template.image_pull_policy,
        "restartPolicy": "Always",
        "command": [*_PYTHON, _WORKER_PROGRAM],
        "env": [
            *({"name": name, "value": value} for name, value in told.items()),
            _downward("POD_NAME", "metadata.name"),
            _downward("POD_UID", "metadata.uid"),
            _downward("POD_NODE", "spec.nodeName"),
        ],
        "securityContext": _confined(SIDECAR_UID),
        "resources": {
            "requests": {
                "cpu": str(sizes.cpu),
                "memory": f"{sizes.memory_mib}Mi",
                "ephemeral-storage": f"{_SCHEDULED_DISK_MIB}Mi",
            },
            "limits": {
                "cpu": str(sizes.cpu_max),
                "memory": f"{sizes.memory_max_mib}Mi",
                "ephemeral-storage": f"{_LOGS_MIB}Mi",
            },
        },
        "volumeMounts": [
            *([] if pool.on_volume else [measured]),
            {"name": "channel", "mountPath": _CHANNEL},
            {"name": "sidecar", "mountPath": _OWN},
            {"name": "enrol", "mountPath": _ENROL, "readOnly": True},
        ],
    }


def claim_name(pool: str) -> str:
    """Return the name of the claim of a pool's volume."""
    return f"workspaces-{pool}"


def _sandbox(template: PodTemplate, pool: PoolSpec, order: PodOrder) -> dict[str, Any]:
    limits = pool.limits
    security = _confined(SANDBOX_UID)
    if template.seccomp_profile:
        security["seccompProfile"] = {
            "type": "Localhost",
            "localhostProfile": template.seccomp_profile,
        }
    bounds = ["--pids", str(limits.pids), "--disk-mib", str(limits.disk_mib)]
    place, workspace = ["--workspace", _WORKSPACE], {"name": "workspace", "mountPath": _WORKSPACE}
    if pool.on_volume:
        # The pod's own folder on it, which a keeper has made; the session's is moved into that later.
        workspace["subPath"] = f"pods/{order.pod}"
        place = ["--workspace", f"{_WORKSPACE}/{FOLDER}", "--volume", _WORKSPACE]
    return {
        "name": "sandbox",
        "image": pool.image or template.sandbox_image,
        "imagePullPolicy": template.image_pull_policy,
        # Named here, whatever an image derived from ours says: nothing may run in it that did not confine itself.
        "command": [*_PYTHON, _SANDBOX_PROGRAM],
        "args": ["--connect", _SOCKET, *place, *bounds],
        "workingDir": _WORKSPACE,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": security,
        "resources": {
            "requests": {
                "cpu": str(min(template.sandbox_cpu, limits.cpu)),
                "memory": f"{min(template.sandbox_memory_mib, limits.memory_mib)}Mi",
                "ephemeral-storage": f"{_SCHEDULED_DISK_MIB}Mi",
            },
            "limits": {
                "cpu": str(limits.cpu),
                "memory": f"{limits.memory_mib}Mi",
                "ephemeral-storage": f"{limits.disk_mib + _LOGS_MIB}Mi",
            },
        },
        "volumeMounts": [
            workspace,
            {"name": "channel", "mountPath": _CHANNEL, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the sandbox's own
            # The runtime's own is one for all containers of the pod, and of a size that nobody chose.
            {"name": "tmp", "mountPath": "/dev/shm"},  # noqa: S108 - likewise
        ],
    }


def _volumes(template: PodTemplate, pool: PoolSpec) -> list[dict[str, Any]]:
    """Return the volumes: only `channel` and `workspace` are in both containers, and only files of the sandbox's in these.

    `workspace` lies on the node's disk, where the checkpointer finds it; `enrol` is what proves the sidecar to be this pod.
    """
    token = {"audience": AUDIENCE, "expirationSeconds": 600, "path": "token"}
    sources: list[dict[str, Any]] = [
        {"secret": {"name": template.enrol_secret}},
        {"serviceAccountToken": token},
    ]
    if template.nats_ca_config_map:
        items = [{"key": _CA_FILE, "path": _CA_FILE}]
        sources.append({"configMap": {"name": template.nats_ca_config_map, "items": items}})
    tmp_mib = min(template.tmp_mib, pool.limits.memory_mib)
    return [
        {"name": "workspace", **_workspace(pool)},
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": f"{tmp_mib}Mi"}},
        {"name": "channel", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "sidecar", "emptyDir": {"sizeLimit": "16Mi"}},
        {"name": "enrol", "projected": {"defaultMode": 0o440, "sources": sources}},
    ]


def _workspace(pool: PoolSpec) -> dict[str, Any]:
    if pool.on_volume:
        return {"persistentVolumeClaim": {"claimName": claim_name(pool.name)}}
    return {"emptyDir": {"sizeLimit": f"{pool.limits.disk_mib}Mi"}}


def _confined(uid: int) -> dict[str, Any]:
    return {
        "runAsUser": uid,
        "runAsGroup": FILES_GROUP,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _downward(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
