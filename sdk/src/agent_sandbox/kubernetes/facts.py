"""What `k8s doctor` sees of a cluster. Each fact is taken on its own: one that can't be had hides no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec

from agent_sandbox.kubernetes.names import MONITOR_PORT, SERVERS_LABEL, Namespaces
from agent_sandbox.kubernetes.rights import (
    MARK_NODES,
    Account,
    Right,
    needed,
    review_of,
    to_install,
)
from shared.cluster import monitor
from shared.errors import ServiceError
from shared.kubectl import (
    Kubectl,
    Object,
    Problem,
    Version,
    forwarded,
    pod_problem,
    server_version,
)
from shared.kubectl.rollout import find_problems
from shared.views import PoolsAnswer

T = TypeVar("T")

LEVEL_LABEL = "pod-security.kubernetes.io/enforce"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
HEALTH = "/healthz"
"""All of it: with a peer for each stream that it has caught up with."""
REVIEWS_AT_ONCE = 4
OUT_OF_SERVICE = ("node.kubernetes.io/out-of-service", "agent-sandbox")
"""Taint and its value."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node of Kubernetes."""

    name: str
    ready: bool
    labels: dict[str, str] = {}
    """Where it is not ready, these do not matter."""
    out_of_service: bool = False
    """It has the taint by which Kubernetes forgets its pods and volumes, as pool-managers or their word set it."""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """A RuntimeClass."""

    name: str
    handler: str
    selector: dict[str, str] = {}
    """Labels of the nodes that have it; none: all."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A PersistentVolumeClaim of ours."""

    name: str
    """`<namespace>/<name>`."""
    phase: str
    storage_class: str = ""
    on_one_node: bool = False
    """Only one node can have it at a time."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen. None, where it stands: could not be seen, and `errors` says why under the field's name."""

    spaces: Namespaces
    context: str = ""
    version: Version | None = None
    levels: dict[str, str] | None = None
    """Namespace that is there -> its PodSecurity level."""
    nodes: tuple[Node, ...] | None = None
    runtimes: tuple[Runtime, ...] | None = None
    storage: dict[str, bool] | None = None
    """StorageClass -> whether it is the default."""
    claims: tuple[Claim, ...] | None = None
    problems: tuple[Problem, ...] | None = None
    """What of our workloads is not ready."""
    servers: dict[str, str] | None = None
    """Pod of a NATS server -> empty if it is well, else what it says."""
    denying: tuple[str, ...] | None = None
    """Namespaces with a NetworkPolicy that denies what no other one allows."""
    refused: dict[str, tuple[str, ...]] | None = None
    """Service account -> what it must be allowed to do, and is not."""
    may_mark_nodes: bool | None = None
    """Whether pool-managers may take a node out of service."""
    may_not_install: tuple[str, ...] | None = None
    """What the caller is not allowed to do, of what setting a system up needs."""
    pools: PoolsAnswer | None = None
    errors: dict[str, str] = {}

    @property
    def is_installed(self) -> bool:
        """Whether the namespace of the system is there."""
        return self.levels is not None and self.spaces.system in self.levels


class _Seen:
    def __init__(self) -> None:
        self.errors: dict[str, str] = {}

    def take(self, field: str, look: Callable[[], T]) -> T | None:
        """Return what is seen; None, with the error noted, where it can't be."""
        try:
            return look()
        except ServiceError as exc:
            self.errors[field] = str(exc)
            return None


def look(kubectl: Kubectl, spaces: Namespaces, ask_pools: Callable[[], PoolsAnswer]) -> Facts:
    """Return the facts of a cluster.

    Args:
        kubectl: on its context.
        spaces: where the system is, or would be.
        ask_pools: asks the pool-managers, as a client does; not called where no system is.
    """
    seen = _Seen()
    context = seen.take("context", lambda: _context(kubectl)) or ""
    version = seen.take("version", lambda: server_version(kubectl))
    if version is None:
        return Facts(spaces=spaces, context=context, errors=seen.errors)
    levels = seen.take("levels", lambda: _levels(kubectl, spaces))
    there = tuple(name for name in spaces if levels and name in levels)
    installed = spaces.system in there
    accounts = needed(spaces) if installed else {}
    manager = Account(spaces.system, "pool-manager")
    return Facts(
        spaces=spaces,
        context=context,
        version=version,
        levels=levels,
        nodes=seen.take("nodes", lambda: tuple(map(node_of, kubectl.list("nodes")))),
        runtimes=seen.take(
            "runtimes", lambda: tuple(map(runtime_of, kubectl.list("runtimeclasses")))
        ),
        storage=seen.take("storage", lambda: _storage(kubectl.list("storageclasses"))),
        claims=seen.take("claims", lambda: _claims(kubectl, there)),
        problems=seen.take("problems", lambda: _problems(kubectl, spaces, there)),
        servers=seen.take("servers", lambda: _servers(kubectl, spaces)) if installed else None,
        denying=seen.take("denying", lambda: _denying(kubectl, there)),
        refused=seen.take("refused", lambda: _refused(kubectl, accounts)),
        may_mark_nodes=seen.take("may_mark_nodes", lambda: _may(kubectl, manager, MARK_NODES)),
        may_not_install=None
        if installed
        else seen.take("may_not_install", lambda: _not_allowed(kubectl, None, to_install())),
        pools=seen.take("pools", ask_pools) if installed else None,
        errors=seen.errors,
    )


# --- one object each, pure -------------------------------------------------------------------------------------------


def node_of(item: Object) -> Node:
    """Return what matters of a Node."""
    conditions = {one["type"]: one["status"] for one in item["status"].get("conditions", ())}
    return Node(
        name=item["metadata"]["name"],
        ready=conditions.get("Ready") == "True" and not item["spec"].get("unschedulable", False),
        labels=item["metadata"].get("labels", {}),
        out_of_service=OUT_OF_SERVICE
        in [(one["key"], one.get("value")) for one in item["spec"].get("taints") or ()],
    )


def runtime_of(item: Object) -> Runtime:
    """Return what matters of a RuntimeClass."""
    return Runtime(
        name=item["metadata"]["name"],
        handler=item["handler"],
        selector=(item.get("scheduling") or {}).get("nodeSelector") or {},
    )


def denies_all(policy: Object) -> bool:
    """Return whether a NetworkPolicy shuts a whole namespace, both ways, but for what others open."""
    spec: dict[str, Any] = policy["spec"]
    return (
        not spec.get("podSelector")
        and set(spec.get("policyTypes", ())) == {"Ingress", "Egress"}
        and not spec.get("ingress")
        and not spec.get("egress")
    )


def _storage(classes: Iterable[Object]) -> dict[str, bool]:
    return {
        one["metadata"]["name"]: one["metadata"].get("annotations", {}).get(DEFAULT_CLASS) == "true"
        for one in classes
    }


# --- looking ---------------------------------------------------------------------------------------------------------


def _context(kubectl: Kubectl) -> str:
    return kubectl.context or kubectl.run("config", "current-context").strip()


def _levels(kubectl: Kubectl, spaces: Namespaces) -> dict[str, str]:
    found = {}
    for name in spaces:
        one = kubectl.find("namespace", name)
        if one is not None:
            found[name] = one["metadata"].get("labels", {}).get(LEVEL_LABEL, "")
    return found


def _claims(kubectl: Kubectl, there: Sequence[str]) -> tuple[Claim, ...]:
    return tuple(
        Claim(
            name=f"{namespace}/{one['metadata']['name']}",
            phase=one["status"].get("phase", ""),
            storage_class=one["spec"].get("storageClassName", ""),
            on_one_node="ReadWriteMany" not in one["spec"].get("accessModes", ()),
        )
        for namespace in there
        for one in kubectl.list("persistentvolumeclaims", namespace=namespace)
    )


def _problems(kubectl: Kubectl, spaces: Namespaces, there: Sequence[str]) -> tuple[Problem, ...]:
    """Workers have no workload above them: their namespace is the pools' matter."""
    return tuple(find_problems(kubectl, [name for name in there if name != spaces.pods]))


def _servers(kubectl: Kubectl, spaces: Namespaces) -> dict[str, str]:
    """Ask each server itself; network policies shut its monitoring to all but a forwarded port."""
    found = {}
    for pod in kubectl.list("pods", namespace=spaces.system, labels=SERVERS_LABEL):
        name = pod["metadata"]["name"]
        found[name] = pod_problem(pod)
        if found[name]:
            continue
        try:
            with forwarded(kubectl, spaces.system, f"pod/{name}", MONITOR_PORT) as port:
                said = monitor.ask(port, HEALTH)
        except ServiceError as exc:
            found[name] = str(exc)
            continue
        if said is None:
            found[name] = "does not answer"
        elif said.get("status") != "ok":
            found[name] = str(said.get("error") or said)
    return found


def _denying(kubectl: Kubectl, there: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        namespace
        for namespace in there
        if any(map(denies_all, kubectl.list("networkpolicies", namespace=namespace)))
    )


def _refused(
    kubectl: Kubectl, accounts: dict[Account, tuple[Right, ...]]
) -> dict[str, tuple[str, ...]]:
    return {
        account.user: _not_allowed(kubectl, account, rights)
        for account, rights in accounts.items()
        if rights
    }


def _not_allowed(
    kubectl: Kubectl, account: Account | None, rights: Sequence[Right]
) -> tuple[str, ...]:
    """Return those that an account (None: the caller) does not have."""
    with ThreadPoolExecutor(REVIEWS_AT_ONCE) as some:
        allowed = list(some.map(lambda right: _may(kubectl, account, right), rights))
    return tuple(str(right) for right, may in zip(rights, allowed, strict=True) if not may)


def _may(kubectl: Kubectl, account: Account | None, right: Right) -> bool:
    kind = "SelfSubjectAccessReview" if account is None else "SubjectAccessReview"
    spec = review_of(right)
    if account is not None:
        spec["user"] = account.user
        spec["groups"] = ["system:serviceaccounts", f"system:serviceaccounts:{account.namespace}"]
        spec["groups"].append("system:authenticated")
    answer = kubectl.ask(
        f"/apis/authorization.k8s.io/v1/{kind.lower()}s",
        {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec},
    )
    return bool(answer["status"].get("allowed"))
