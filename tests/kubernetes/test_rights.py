"""What services are allowed to do, what they say that they need, and what they do: the same."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from pathlib import Path

from harness.site import open_site
from tests.kubernetes.conftest import SHARED_CLASS

from agent_sandbox.kubernetes.names import Namespaces
from agent_sandbox.kubernetes.rights import Account, Right, needed
from shared.kubectl import Kubectl, Object
from shared.pools import PoolSpec, Volume
from shared.testing import audit
from shared.testing.names import unique

RARELY_USED = {
    ("provisioner", "create", "secrets"),
    ("provisioner", "create", "configmaps"),
    ("provisioner", "update", "secrets"),
    ("provisioner", "update", "configmaps"),
    ("provisioner", "update", "deployments"),
    ("provisioner", "update", "statefulsets"),
    ("pool-manager", "get", "/openid/v1/jwks"),
    ("pool-manager", "get", "pods"),
    ("pool-manager", "list", "nodes"),
    ("pool-manager", "list", "runtimeclasses"),
    ("pool-manager", "list", "pods"),
    ("pool-manager", "create", "persistentvolumeclaims"),
    ("pool-manager", "create", "deployments"),
    ("pool-manager", "update", "deployments"),
    ("pool-manager", "delete", "deployments"),
    ("pool-manager", "watch", "nodes"),
    ("pool-manager", "watch", "runtimeclasses"),
    ("pool-manager", "watch", "pods"),
}
"""Granted, and used when something is made, renewed or begun anew: not in each minute that a test watches."""


def granted(kubectl: Kubectl, account: Account) -> set[Right]:
    """Return what roles grant an account by name."""
    found: set[Right] = set()
    bindings = [(one, one["metadata"]["namespace"]) for one in kubectl.list("rolebindings")] + [
        (one, "") for one in kubectl.list("clusterrolebindings")
    ]
    for binding, namespace in bindings:
        subjects = binding.get("subjects") or []
        if not any(_is(subject, account) for subject in subjects):
            continue
        ref = binding["roleRef"]
        where = namespace if ref["kind"] == "Role" else None
        role = kubectl.get(ref["kind"].lower(), ref["name"], namespace=where)
        found |= set(_rights(role.get("rules") or (), namespace))
    return found


def _is(subject: Object, account: Account) -> bool:
    return (subject["kind"], subject["name"], subject.get("namespace")) == (
        "ServiceAccount",
        account.name,
        account.namespace,
    )


def _rights(rules: Iterable[Object], namespace: str) -> Iterable[Right]:
    for rule in rules:
        for verb in rule["verbs"]:
            for path in rule.get("nonResourceURLs", ()):
                yield Right(verb, path)
            for group in rule.get("apiGroups", ()):
                for resource in rule.get("resources", ()):
                    for name in rule.get("resourceNames") or ("",):
                        yield Right(verb, resource, group, namespace, name)


def test_roles_grant_exactly_what_is_needed(kubectl: Kubectl, system: Namespaces) -> None:
    """What `k8s doctor` asks for is what the roles say; nothing by a wildcard. The keys of pods' tokens every account may read."""
    for account, rights in needed(system).items():
        wanted = {right for right in rights if not right.resource.startswith("/")}
        assert granted(kubectl, account) == wanted, account


def test_workers_servers_and_checkpointers_have_no_rights(
    kubectl: Kubectl, system: Namespaces
) -> None:
    """Nobody grants them anything, and their pods hold no token of the API server's."""
    accounts = [
        Account(system.pods, "agent-sandbox-worker"),
        Account(system.nodes, "checkpointer"),
        Account(system.system, "nats"),
        Account(system.system, "gateway"),
    ]
    assert {account: granted(kubectl, account) for account in accounts} == {
        account: set() for account in accounts
    }


async def test_what_is_granted_is_used_and_what_is_used_is_granted(
    kubectl: Kubectl, system: Namespaces, audit_log: Path
) -> None:
    """By the API server's own log of a while in which a task runs and its pod is replaced: no request is refused, and every
    right is used but those that are listed as rarely needed."""
    began_s = time.time()
    async with open_site() as site, site.client() as client:
        await client.run("true", pool="test-oci")
        await site.wait_warm("test-oci", 4)
        await asyncio.sleep(6)  # the provisioner looks every five seconds

    requests = list(audit.read(audit_log, began_s))
    for account, rights in needed(system).items():
        own = [one for one in requests if one.user == account.user]
        refused = {f"{one.verb} {one.resource}" for one in own if one.code == 403}
        assert refused == set(), account
        used = {(account.name, one.verb, one.resource) for one in own}
        allowed = {(account.name, right.verb, right.resource) for right in rights}
        assert used <= allowed, account
        assert allowed - used <= RARELY_USED, account


async def test_a_pool_on_a_volume_is_set_up_by_the_rights_that_are_granted_for_it(
    kubectl: Kubectl, system: Namespaces, audit_log: Path
) -> None:
    """From its declaration to a session's file: the pool-manager claims, makes keepers, and is refused nothing. Keepers and workers
    ask nothing of the API server."""
    name = unique("rights")
    volume = Volume(size_gib=1, storage_class=os.environ.get(SHARED_CLASS, ""))
    pool = PoolSpec(name=name, stock=1, isolation="oci", workspace="pvc", volume=volume)
    began_s = time.time()
    try:
        async with open_site([pool]) as site, site.client() as client:
            await site.wait_warm(name, 1)
            session = await client.create_session(pool=name)
            await session.write("f", "x")
            await session.close()
    finally:
        words = ("-n", system.pods, "--ignore-not-found", "--wait=false")
        kubectl.run("delete", "deployment", f"keeper-{name}", *words)
        kubectl.run("delete", "persistentvolumeclaim", f"workspaces-{name}", *words)

    requests = list(audit.read(audit_log, began_s))
    manager = Account(system.system, "pool-manager")
    mine = [one for one in requests if one.user == manager.user]
    assert {f"{one.verb} {one.resource}" for one in mine if one.code == 403} == set()
    used = {(one.verb, one.resource) for one in mine if one.namespace == system.pods}
    assert used >= {
        (verb, resource)
        for resource in ("persistentvolumeclaims", "deployments")
        for verb in ("create", "list")
    }
    worker = Account(system.pods, "agent-sandbox-worker")
    assert [one for one in requests if one.user == worker.user] == []
