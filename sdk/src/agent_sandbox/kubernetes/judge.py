"""What the facts of a cluster mean, and what to do: decided here, nothing is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from agent_sandbox.checkup.verdict import Check, fail, ok, warn
from agent_sandbox.kubernetes.facts import OUT_OF_SERVICE, Facts
from agent_sandbox.kubernetes.isolation import judge_isolation, unseen
from shared.kubectl import Version

VERSION_MIN = Version(1, 29)
"""The first in which a sidecar starts before the containers beside it, without being asked for as an experiment."""
SERVERS = 3
"""NATS servers: two of them are a majority."""
APPLY = "kubectl apply -k deploy/overlays/production (or dev)"


class ClusterReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `k8s doctor` says."""

    verdict: Literal["ok", "warn", "fail"]
    """`fail`: tasks do not run, or not all; `warn`: they do, with less than they could have."""
    checks: tuple[Check, ...]


def judge(facts: Facts) -> ClusterReport:
    """Return all checks, and the worst of them as the verdict."""
    judges: tuple[Callable[[Facts], Check | None], ...] = (
        _cluster,
        _namespaces,
        _installer,
        _rights,
        _nodes,
        judge_isolation,
        _storage,
        _disks,
        _policies,
        _services,
        _servers,
        _pools,
    )
    if facts.version is None:
        judges = judges[:1]
    checks = tuple(check for each in judges if (check := each(facts)) is not None)
    verdicts = {check.verdict for check in checks}
    worst: Literal["ok", "warn", "fail"] = "ok"
    for level in ("warn", "fail"):
        if level in verdicts:
            worst = level
    return ClusterReport(verdict=worst, checks=checks)


def _cluster(facts: Facts) -> Check:
    if facts.version is None:
        return fail(
            "cluster",
            facts.errors.get("version", "no answer"),
            "choose a context that works: `kubectl config get-contexts`, --context NAME",
        )
    found = f"Kubernetes {facts.version}, context {facts.context or 'unknown'}"
    if facts.version < VERSION_MIN:
        return fail("cluster", found, f"{VERSION_MIN} or newer is needed: workers have a sidecar")
    return ok("cluster", found)


def _namespaces(facts: Facts) -> Check:
    if facts.levels is None:
        return unseen(facts, "namespaces", "levels")
    missing = [name for name in facts.spaces if name not in facts.levels]
    if missing:
        return fail("namespaces", f"missing: {', '.join(missing)}", APPLY)
    wanted = {
        facts.spaces.system: "restricted",
        facts.spaces.nodes: "privileged",
        facts.spaces.pods: "restricted",
    }
    wrong = {
        name: f"PodSecurity level {facts.levels[name] or 'none'}, {level} wanted"
        for name, level in wanted.items()
        if facts.levels[name] != level
    }
    if wrong:
        first = next(iter(wrong))
        return warn(
            "namespaces",
            f"{len(wrong)} not labelled as they should be",
            f"kubectl label namespace {first} --overwrite "
            f"pod-security.kubernetes.io/enforce={wanted[first]}",
            wrong,
        )
    return ok("namespaces", ", ".join(facts.spaces))


def _installer(facts: Facts) -> Check | None:
    if facts.is_installed or facts.may_not_install is None:
        return None
    if facts.may_not_install:
        return fail(
            "your rights",
            f"you may not: {', '.join(facts.may_not_install)}",
            "have an administrator of the cluster set the system up",
        )
    return ok("your rights", "you may set the system up")


def _rights(facts: Facts) -> Check | None:
    if not facts.is_installed:
        return None
    if facts.refused is None:
        return unseen(facts, "rights of services", "refused")
    lacking = {user: rights for user, rights in facts.refused.items() if rights}
    if lacking:
        return fail(
            "rights of services",
            f"{len(lacking)} may do less than they must",
            f"bring the roles back: {APPLY}",
            {user: f"may not: {', '.join(rights)}" for user, rights in lacking.items()},
        )
    return ok("rights of services", f"{len(facts.refused)} accounts may do what they must")


def _nodes(facts: Facts) -> Check:
    if facts.nodes is None:
        return unseen(facts, "nodes", "nodes")
    ready = [node for node in facts.nodes if node.ready]
    away = [node.name for node in facts.nodes if not node.ready]
    found = f"{len(ready)} of {len(facts.nodes)} ready"
    if not ready:
        return fail("nodes", found, "`kubectl describe nodes` says why; nothing can be started")
    if shut := [node.name for node in ready if node.out_of_service]:
        return warn(
            "nodes",
            f"{found}, but out of service, as if they were off: {', '.join(shut)}",
            f"take them back: kubectl taint node {shut[0]} {OUT_OF_SERVICE[0]}- (pool-managers do it "
            "themselves where deploy/out-of-service gives them the right)",
        )
    if away:
        return warn(
            "nodes",
            f"{found}: not {', '.join(away)}",
            "sessions go on elsewhere; start or remove those nodes (`kubectl describe node` says why)",
        )
    if len(ready) < SERVERS:
        return warn(
            "nodes",
            found,
            f"with fewer than {SERVERS} nodes, one that dies takes the majority of the NATS servers "
            "with it: add nodes",
        )
    return ok("nodes", found)


def _storage(facts: Facts) -> Check:
    if facts.storage is None or facts.claims is None:
        field = "storage" if facts.storage is None else "claims"
        return unseen(facts, "storage", field)
    open_claims = {
        claim.name: f"{claim.phase}, class {claim.storage_class or 'none'}"
        for claim in facts.claims
        if claim.phase != "Bound"
    }
    default = [name for name, is_default in facts.storage.items() if is_default]
    if open_claims:
        return fail(
            "storage",
            f"{len(open_claims)} of {len(facts.claims)} volumes are not bound",
            "`kubectl describe pvc` says why; name a StorageClass that is there "
            f"({', '.join(facts.storage) or 'there is none'}) in your overlay",
            open_claims,
        )
    if not facts.is_installed and not default:
        return fail(
            "storage",
            f"no default StorageClass (of {len(facts.storage)})",
            "mark one as the default, or name one for the NATS servers in your overlay",
        )
    held = f"{len(facts.claims)} volumes bound" if facts.claims else "no volume yet"
    return ok("storage", f"{held}; default class {', '.join(default) or 'none'}")


def _disks(facts: Facts) -> Check | None:
    """Volumes of pools that one node has at a time; nothing where there are none."""
    found = [
        claim.name
        for claim in facts.claims or ()
        if claim.on_one_node and claim.name.startswith(f"{facts.spaces.pods}/")
    ]
    if not found:
        return None
    if facts.may_mark_nodes is None:
        return unseen(facts, "disks", "may_mark_nodes")
    said = f"{len(found)} pools have a volume that one node has at a time"
    if not facts.may_mark_nodes:
        return warn(
            "disks",
            f"{said}, and pool-managers may not take that node out of service when it is proven to be off",
            "kubectl apply -k deploy/out-of-service; else they say what you are to do",
        )
    return ok("disks", said)


def _policies(facts: Facts) -> Check | None:
    if not facts.is_installed:
        return None
    if facts.denying is None:
        return unseen(facts, "network policies", "denying")
    open_spaces = [name for name in facts.spaces if name not in facts.denying]
    if open_spaces:
        return fail(
            "network policies",
            f"whatever is not named is allowed in {', '.join(open_spaces)}",
            f"bring them back: {APPLY}",
        )
    return ok(
        "network policies",
        "shut by default (whether the network plugin keeps that, a test must show)",
    )


def _services(facts: Facts) -> Check | None:
    if not facts.is_installed:
        return None
    if facts.problems is None:
        return unseen(facts, "services", "problems")
    if facts.problems:
        return fail(
            "services",
            f"not ready: {', '.join(problem.what for problem in facts.problems)}",
            f"`kubectl -n {facts.spaces.system} describe pods` and `kubectl logs` tell more",
            {problem.what: problem.why for problem in facts.problems},
        )
    return ok("services", "all ready")


def _servers(facts: Facts) -> Check | None:
    if not facts.is_installed:
        return None
    if facts.servers is None:
        return unseen(facts, "nats", "servers")
    return _judge_servers(facts.servers, facts.spaces.system)


def _judge_servers(servers: Mapping[str, str], namespace: str) -> Check:
    well = [name for name, why in servers.items() if not why]
    found = f"{len(well)} of {max(SERVERS, len(servers))} servers are well"
    sick = {name: why for name, why in servers.items() if why}
    advice = (
        f"`kubectl -n {namespace} logs {next(iter(sick), 'nats-0')} -c nats`; a server that lacks its disk or its peers "
        "says so there"
    )
    if 2 * len(well) <= max(SERVERS, len(servers)):
        return fail("nats", f"{found}: no majority, nothing can be stored", advice, sick)
    if sick or len(servers) < SERVERS:
        return warn("nats", f"{found}: one more may not fail", advice, sick)
    return ok("nats", found)


def _pools(facts: Facts) -> Check | None:
    if not facts.is_installed:
        return None
    if facts.pools is None:
        return fail(
            "pools",
            f"the pool-managers do not answer: {facts.errors.get('pools', 'not asked')}",
            f"`kubectl -n {facts.spaces.system} logs deployment/pool-manager`",
        )
    held = {pool.pool: pool.reason for pool in facts.pools.pools if pool.reason}
    if held:
        return warn(
            "pools",
            f"not full: {', '.join(held)}",
            "; ".join(f"{pool}: {why}" for pool, why in held.items()),
        )
    if not facts.pools.pools:
        return fail("pools", "there is none", "declare one in the ConfigMap of pools")
    warm = sum(pool.warm for pool in facts.pools.pools)
    return ok("pools", f"{len(facts.pools.pools)}, {warm} workers wait")
