"""A pool whose volume one node has at a time: all of it is there, and goes on elsewhere when that node is proven to be off."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from harness.running import CannotMeasure
from harness.site import Site, open_site
from kubernetes_parts.trees import differences, make_tree
from tests.kubernetes.conftest import DISK_CLASS, ROOT
from tests.kubernetes.test_volumes import WRITES, begun, opened, owner_of

from agent_sandbox.kubernetes.names import Namespaces
from shared.errors import ServiceError
from shared.kubectl import Kubectl
from shared.pools import PoolSpec, Volume
from shared.testing.names import unique
from shared.testing.node_faults import NodeFaults

IS_OFF = "agent-sandbox.dev/is-off"
OUT = "node.kubernetes.io/out-of-service"
RIGHTS = ROOT / "deploy" / "out-of-service"
TOLD_S, FREED_S = 120, 240
POOL_MANAGER = "system:serviceaccount:agent-sandbox:pool-manager"
Marking = Callable[..., str]
NOTE = {"op": "add", "path": "/metadata/annotations/mine", "value": "x"}
LABEL = {"op": "add", "path": "/metadata/labels/mine", "value": "x"}


@contextmanager
def as_pool_manager(kubectl: Kubectl) -> Iterator[Marking]:
    """Yield what tries a change of a node under a pool-manager's rights, changes nothing, and returns what it is told; empty: done.

    Over `kubectl proxy`: `kubectl patch` reads the node first, which pool-managers may not.
    """
    child = subprocess.Popen(kubectl.command("proxy", "--port=0"), stdout=subprocess.PIPE)
    assert child.stdout is not None
    address = child.stdout.readline().decode().split()[-1]
    node = kubectl.list("nodes")[0]["metadata"]["name"]

    def mark(*operations: dict[str, Any]) -> str:
        headers = {"Impersonate-User": POOL_MANAGER, "Content-Type": "application/json-patch+json"}
        url = f"http://{address}/api/v1/nodes/{node}?dryRun=All"
        request = urllib.request.Request(
            url, json.dumps(operations).encode(), headers, method="PATCH"
        )
        try:
            with urllib.request.urlopen(request, timeout=30):
                return ""
        except urllib.error.HTTPError as refused:
            return str(json.load(refused)["message"])

    try:
        yield mark
    finally:
        child.terminate()
        child.wait(10)


def taint(kubectl: Kubectl, key: str, value: str) -> dict[str, Any]:
    """Return the change that adds a taint to the node that is tried."""
    found = {"key": key, "value": value, "effect": "NoExecute"}
    if kubectl.list("nodes")[0]["spec"].get("taints"):
        return {"op": "add", "path": "/spec/taints/-", "value": found}
    return {"op": "add", "path": "/spec/taints", "value": [found]}


def wait_said(kubectl: Kubectl, change: dict[str, Any], word: str) -> None:
    """Wait until a change is refused with these words: rights and policies come into force a moment after they are stored."""
    until = time.monotonic() + TOLD_S
    with as_pool_manager(kubectl) as mark:
        while word not in (said := mark(change)):
            assert time.monotonic() < until, said
            time.sleep(0.5)


@pytest.fixture
def may_mark_nodes(kubectl: Kubectl, system: Namespaces) -> Iterator[None]:
    """Pool-managers may take nodes out of service."""
    kubectl.run("apply", "-k", str(RIGHTS))
    wait_said(kubectl, LABEL, "change no label")
    yield
    kubectl.run("annotate", "nodes", "--all", f"{IS_OFF}-")
    for node in kubectl.list("nodes"):  # what a test that failed has left
        if OUT in taints(kubectl, name := node["metadata"]["name"]):
            kubectl.run("taint", "node", name, f"{OUT}-")
    kubectl.run("delete", "-k", str(RIGHTS))
    wait_said(kubectl, LABEL, "cannot patch")


@pytest.fixture
def pool(kubectl: Kubectl, system: Namespaces) -> Iterator[PoolSpec]:
    """On a disk; what stays of it is removed."""
    found = os.environ.get(DISK_CLASS)
    if not found:
        pytest.skip(f"no ${DISK_CLASS} names a class of volumes that one node has at a time")
    volume = Volume(size_gib=1, storage_class=found, access_mode="ReadWriteOnce")
    name = unique("disk")
    yield PoolSpec(
        name=name, stock=2, isolation="oci", workspace="pvc", volume=volume, idle_release_s=3600
    )
    words = ("-n", system.pods, "--ignore-not-found", "--wait=false")
    kubectl.run("delete", "deployment", f"keeper-{name}", *words)
    kubectl.run("delete", "persistentvolumeclaim", f"workspaces-{name}", *words)


def taints(kubectl: Kubectl, node: str) -> set[str]:
    """Return the keys of a node's taints."""
    return {one["key"] for one in kubectl.get("node", node)["spec"].get("taints") or ()}


async def told(site: Site, pool: PoolSpec, word: str) -> str:
    """Wait until the pool's status says something; return all of it. Whom it is asked may have been on the node that is gone."""
    reason = ""
    async with asyncio.timeout(TOLD_S):
        while word not in reason:
            await asyncio.sleep(0.5)
            with suppress(ServiceError, CannotMeasure):
                reason = (await site.view(pool.name)).reason
    return reason


@pytest.mark.timeout(600, func_only=True)
async def test_a_disk_leaves_a_dead_node_by_proof_alone(
    pool: PoolSpec, may_mark_nodes: None, faults: NodeFaults, kubectl: Kubectl, tmp_path: Path
) -> None:
    """Until somebody says that the node is off its pool names it and the command, and nothing is done to it; then the session
    goes on on another node with the same files. When the node is back it is taken into service, and the word is gone."""
    async with open_site([pool]) as site, site.client() as client, AsyncExitStack() as closing:
        await site.wait_warm(pool.name, 2)
        make_tree(tmp_path / "tree")
        session = await closing.enter_async_context(opened(client, pool.name))
        await session.upload_tree(tmp_path / "tree", "tree")
        hit = await begun(session, WRITES, b"written", TOLD_S + FREED_S)
        owner = (await owner_of(site, session)).owner or ""
        places = await asyncio.to_thread(site.worker_nodes)
        node = places[owner]
        mine = {place for name, place in places.items() if name.startswith(pool.name)}
        assert mine == {node}, "all of the pool are on the node that has the volume"

        await asyncio.to_thread(faults.do, "poweroff", node)
        reason = await told(site, pool, IS_OFF)
        boot = kubectl.get("node", node)["status"]["nodeInfo"]["bootID"]
        assert f"kubectl annotate node {node} {IS_OFF}={boot}" in reason
        assert OUT not in taints(kubectl, node)

        kubectl.run("annotate", "node", node, f"{IS_OFF}={boot}")
        async with asyncio.timeout(FREED_S):
            assert (await hit).startswith("interrupted")
        after = await owner_of(site, session)
        assert (await asyncio.to_thread(site.worker_nodes))[after.owner or ""] != node
        assert OUT in taints(kubectl, node)
        await session.download_tree("tree", tmp_path / "back")
        assert differences(tmp_path / "tree", tmp_path / "back") == []

        await asyncio.to_thread(faults.mend, "poweroff", node)
        async with asyncio.timeout(TOLD_S):
            while OUT in taints(kubectl, node):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.5)
        assert IS_OFF not in kubectl.get("node", node)["metadata"].get("annotations", {})


def test_pool_managers_may_set_one_taint_and_nothing_else(
    kubectl: Kubectl, may_mark_nodes: None
) -> None:
    """By the policy that comes with the right."""
    with as_pool_manager(kubectl) as mark:
        assert mark(taint(kubectl, OUT, "agent-sandbox")) == ""
        for change, said in (
            (taint(kubectl, OUT, "somebody"), "change no taint but"),
            (
                taint(kubectl, "node.kubernetes.io/unschedulable", "agent-sandbox"),
                "change no taint but",
            ),
            (LABEL, "change no label"),
            (NOTE, "change no annotation"),
            ({"op": "add", "path": "/spec/unschedulable", "value": True}, "nothing else of a node"),
        ):
            assert said in mark(change), change


def test_without_that_right_they_may_not_even_that(kubectl: Kubectl, system: Namespaces) -> None:
    """The deployment itself gives none on nodes but to see them."""
    with as_pool_manager(kubectl) as mark:
        assert "cannot patch" in mark(taint(kubectl, OUT, "agent-sandbox"))
