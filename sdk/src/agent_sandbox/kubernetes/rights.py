"""What each service account of ours must be allowed to do. `deploy/base` grants exactly this, and tests compare them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agent_sandbox.kubernetes.names import Namespaces


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


def needed(spaces: Namespaces) -> dict[Account, tuple[Right, ...]]:
    """Return what each account needs so that all works."""
    pods = spaces.pods
    return {
        Account(spaces.system, "pool-manager"): (
            *_verbs("get list watch create delete", "pods", namespace=pods),
            *_verbs("list watch", "nodes"),
            *_verbs("list watch", "runtimeclasses", group="node.k8s.io"),
            Right("get", "/openid/v1/jwks"),
        ),
        Account(spaces.pods, "agent-sandbox-worker"): (),
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


def _verbs(verbs: str, resource: str, *, group: str = "", namespace: str = "") -> Iterator[Right]:
    for verb in verbs.split():
        yield Right(verb, resource, group, namespace)
