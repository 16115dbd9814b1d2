"""Kubernetes objects as the API server has them, made of the few words that matter."""

from __future__ import annotations

from typing import Any

import msgspec

from shared.kube.views import NodeView, PodView, RuntimeClassView

OURS = "agent-sandbox.dev"
"""Prefix of the labels of worker pods."""


def pod_json(name: str = "default-0-1", **given: Any) -> dict[str, Any]:
    """Return a pod's object.

    Args:
        name: of the pod.
        given: `node`, `phase`, `uid`, `deleted`, `sidecar` and `sandbox` (states), `restarts`, `last`, `conditions`,
            `reason`, `message`, `lanes`, `form`, `pool`.
    """
    meta: dict[str, Any] = {
        "name": name,
        "uid": given.get("uid", f"uid-{name}"),
        "labels": {f"{OURS}/pool": given.get("pool", "default"), f"{OURS}/isolation": "oci"},
        "annotations": {
            f"{OURS}/lanes": given.get("lanes", ""),
            f"{OURS}/form": given.get("form", ""),
        },
    }
    if given.get("deleted"):
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status: dict[str, Any] = {
        "phase": given.get("phase", "Pending"),
        "reason": given.get("reason", ""),
        "message": given.get("message", ""),
        "conditions": given.get("conditions", []),
    }
    if "sidecar" in given:
        status["initContainerStatuses"] = [
            {
                "name": "sidecar",
                "restartCount": given.get("restarts", 0),
                "state": given["sidecar"],
                "lastState": given.get("last", {}),
            }
        ]
    if "sandbox" in given:
        status["containerStatuses"] = [{"name": "sandbox", "state": given["sandbox"]}]
    return {"metadata": meta, "spec": {"nodeName": given.get("node", "")}, "status": status}


def pod_view(name: str = "default-0-1", **given: Any) -> PodView:
    """Return a pod as it is read."""
    return msgspec.convert(pod_json(name, **given), PodView)


RUNS = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    """Return the state of a container that ended."""
    return {"terminated": {"exitCode": code, "reason": reason}}


def waits(reason: str, message: str = "") -> dict[str, Any]:
    """Return the state of a container that waits."""
    return {"waiting": {"reason": reason, "message": message}}


def running(name: str = "default-0-1", **given: Any) -> PodView:
    """Return a pod whose containers run."""
    return pod_view(name, **{"phase": "Running", "node": "n1", "sidecar": RUNS, **given})


def node_view(name: str = "n1", **given: Any) -> NodeView:
    """Return a node: `ready`, `unschedulable`, `labels`, `taints`, `handlers`."""
    status: dict[str, Any] = {
        "conditions": [
            {"type": "Ready", "status": "True" if given.get("ready", True) else "Unknown"}
        ]
    }
    if "handlers" in given:
        status["runtimeHandlers"] = [{"name": each} for each in given["handlers"]]
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": given.get("labels", {})},
            "spec": {
                "unschedulable": given.get("unschedulable", False),
                "taints": given.get("taints", []),
            },
            "status": status,
        },
        NodeView,
    )


def runtime(name: str, handler: str, **scheduling: Any) -> RuntimeClassView:
    """Return a runtime class."""
    given: dict[str, Any] = {"metadata": {"name": name}, "handler": handler}
    if scheduling:
        given["scheduling"] = scheduling
    return msgspec.convert(given, RuntimeClassView)
