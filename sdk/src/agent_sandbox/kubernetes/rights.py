"""What each service account of ours must be allowed to do. `deploy/base` grants exactly this, and tests compare them."""

from __future__ import annotations

from typing import Any, NamedTuple

from agent_sandbox.kubernetes.names import AUTHORITY_MAP, POOLS_MAP, Namespaces


class Right(NamedTuple):
    """One verb on one resource."""

    verb: str
    resource: str
    """With its subresource; a path where it begins with `/`."""
    group: str = ""
    namespace: str = ""
    """Empty: of the whole cluster."""
    name: str = ""
    """Empty: whatever its name."""

    def __str__(self) -> str:
        """As people write it."""
        named = f" {self.name}" if self.name else ""
        group = f".{self.group}" if self.group else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{group}{named}{where}"


class Account(NamedTuple):
    """A service account."""

    namespace: str
    name: str

    @property
    def user(self) -> str:
        """As the API server names it."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


MARK_NODES = Right("patch", "nodes")
"""Of pool-managers, where `deploy/out-of-service` gives it: to take a node out of service that is proven to be off."""


def needed(spaces: Namespaces) -> dict[Account, tuple[Right, ...]]:
    """Return what each account needs so that all works."""
    system, nodes, pods = spaces
    provisioner = [
        *_verbs("get create update", "secrets", namespace=system),
        Right("create", "configmaps", namespace=system),
        Right("get", "configmaps", namespace=system, name=POOLS_MAP),
        *_verbs("get update", "configmaps", namespace=system, name="pools-in-force"),
        *_verbs("get update", "statefulsets", group="apps", namespace=system, name="nats"),
        *_verbs("get update", "deployments", group="apps", namespace=system, name="pool-manager"),
    ]
    for space, *names in (
        (nodes, "checkpointer"),
        (pods, "agent-sandbox-enroller", "agent-sandbox-keeper"),
    ):
        for secret in names:
            provisioner += _verbs("get update", "secrets", namespace=space, name=secret)
        provisioner += [
            Right("create", kind, namespace=space) for kind in ("secrets", "configmaps")
        ]
    for space in spaces:
        provisioner += _verbs("get update", "configmaps", namespace=space, name=AUTHORITY_MAP)
    return {
        Account(system, "pool-manager"): (
            *_verbs("create delete get list watch", "pods", namespace=pods),
            *_verbs("create list", "persistentvolumeclaims", namespace=pods),
            *_verbs("create list update delete", "deployments", group="apps", namespace=pods),
            *_verbs("list watch", "nodes"),
            *_verbs("list watch", "runtimeclasses", group="node.k8s.io"),
            Right("get", "/openid/v1/jwks"),
        ),
        Account(system, "provisioner"): tuple(provisioner),
    }


def to_install() -> tuple[Right, ...]:
    """Return what whoever sets a system up must be allowed to do; not all of it, but what is most often refused."""
    return (
        Right("create", "namespaces"),
        Right("create", "clusterroles", "rbac.authorization.k8s.io"),
        Right("create", "runtimeclasses", "node.k8s.io"),
        Right("create", "priorityclasses", "scheduling.k8s.io"),
        Right("create", "statefulsets", "apps"),
    )


def _verbs(
    verbs: str, resource: str, *, group: str = "", namespace: str = "", name: str = ""
) -> list[Right]:
    return [Right(verb, resource, group, namespace, name) for verb in verbs.split()]


def review_of(right: Right) -> dict[str, Any]:
    """Return a right as a review asks for it."""
    if right.resource.startswith("/"):
        return {"nonResourceAttributes": {"path": right.resource, "verb": right.verb}}
    resource, _, sub = right.resource.partition("/")
    asked = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": sub,
        "namespace": right.namespace,
        "name": right.name,
    }
    return {"resourceAttributes": {key: value for key, value in asked.items() if value}}
