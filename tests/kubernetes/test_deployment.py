"""The deployment itself: applied again it changes nothing, replaced part by part it loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from harness.site import Site, declare, open_site
from tests.kubernetes.conftest import OVERLAY, READY_S, ROOT

from agent_sandbox import Client
from agent_sandbox.kubernetes.names import POOLS_KEY, POOLS_MAP, Namespaces
from shared.kubectl import Kubectl, wait_ready
from shared.pools import parse_pools
from shared.testing.wait import until

KINDS = ("deployments", "statefulsets", "daemonsets")
AT_ONCE = 3
"""Tasks under way at any time while something is replaced."""
ROLLED_S = 280
"""For three servers that leave as lame ducks, one after the other."""


def standing(kubectl: Kubectl, spaces: Namespaces) -> dict[str, object]:
    """Return what must not change: generations of workloads, their pods, versions of Secrets."""
    found: dict[str, object] = {}
    for space in (spaces.system, spaces.nodes):
        for kind in KINDS:
            for each in kubectl.list(kind, namespace=space):
                found[f"{kind}/{each['metadata']['name']}"] = each["metadata"]["generation"]
        for secret in kubectl.list("secrets", namespace=space):
            metadata = secret["metadata"]
            found[f"secret/{metadata['name']}"] = metadata["resourceVersion"]
        found[f"pods of {space}"] = {
            pod["metadata"]["name"] for pod in kubectl.list("pods", namespace=space)
        }
    return found


def test_applied_again_nothing_changes(kubectl: Kubectl, system: Namespaces) -> None:
    """No pod is replaced, no key or credential is made anew. The first time brings back the pools of the files."""
    tested = parse_pools(
        kubectl.get("configmap", POOLS_MAP, namespace=system.system)["data"][POOLS_KEY]
    )
    declare(kubectl, system, parse_pools((ROOT / "deploy/base" / POOLS_KEY).read_text()))
    try:
        kubectl.run("apply", "-k", str(OVERLAY), timeout_s=60)
        wait_ready(kubectl, (system.system, system.nodes), within_s=READY_S)
        before = standing(kubectl, system)

        kubectl.run("apply", "-k", str(OVERLAY), timeout_s=60)

        assert standing(kubectl, system) == before
    finally:
        declare(kubectl, system, tested)


class Load:
    """Tasks, one after another, each told apart by its number; every one must have its result."""

    def __init__(self, client: Client) -> None:
        """Run none yet."""
        self._client = client
        self.numbers = iter(range(1_000_000))
        self.done: list[int] = []
        self.failed: list[str] = []

    async def keep_running(self, over: asyncio.Event) -> None:
        """Run tasks until told otherwise; what goes wrong is noted."""
        while not over.is_set():
            number = next(self.numbers)
            result = await self._client.run(["echo", str(number)], pool="test-oci")
            if result.status == "ok" and result.stdout.strip() == str(number):
                self.done.append(number)
            else:
                self.failed.append(f"{number}: {result.status} {result.raw.error}")


async def under_load(site: Site, replace: Callable[[], Awaitable[None]]) -> Load:
    """Run tasks before, while and after something is replaced; return what became of them."""
    async with site.client(site.service()) as client:
        load, over = Load(client), asyncio.Event()
        await client.run("true", pool="test-oci")  # what is there works
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(load.keep_running(over))
            try:
                await replace()
                seen = len(load.done)
                await until(lambda: len(load.done) >= seen + AT_ONCE, within_s=60)
            finally:
                over.set()
    return load


@pytest.mark.timeout(400, func_only=True)
@pytest.mark.parametrize(
    "workload",
    ["statefulset/nats", "deployment/pool-manager", "deployment/provisioner", "deployment/gateway"],
)
async def test_replaced_pod_by_pod_under_load_no_task_is_lost(
    kubectl: Kubectl, system: Namespaces, workload: str
) -> None:
    """`kubectl rollout restart` while tasks run: each ends with its own output, none fails."""

    async def replace() -> None:
        await asyncio.to_thread(kubectl.run, "rollout", "restart", workload, "-n", system.system)
        words = ("rollout", "status", workload, "-n", system.system, f"--timeout={ROLLED_S}s")
        await asyncio.to_thread(lambda: kubectl.run(*words, timeout_s=ROLLED_S + 10))

    async with open_site() as site:
        load = await under_load(site, replace)

    assert load.failed == []
    assert len(load.done) >= AT_ONCE
    assert len(load.done) == len(set(load.done))
