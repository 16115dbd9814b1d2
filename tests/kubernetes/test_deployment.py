"""The deployment itself: applied again it changes nothing, replaced part by part it loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from harness.site import Site, declare, open_site, others
from tests.kubernetes.conftest import OVERLAY, POOLS, READY_S, ROOT

from agent_sandbox import Client, Result
from agent_sandbox.kubernetes.names import POOLS_KEY, Namespaces
from shared.kubectl import Kubectl, Object, wait_ready
from shared.pools import PoolSpec, parse_pools
from shared.testing.wait import until

KINDS = ("deployments", "statefulsets", "daemonsets")
AT_ONCE = 2
"""One-shots under way at any time while something is replaced, and as many sessions."""
ROLLED_S = 280
"""For three servers that leave as lame ducks, one after the other."""
FORMED_S = 120.0


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


def test_applied_again_nothing_changes(
    kubectl: Kubectl, system: Namespaces, kept_pools: None
) -> None:
    """No pod is replaced, no key or credential is made anew. The first time brings back the pools of the files."""
    declare(kubectl, system, parse_pools((ROOT / "deploy/base" / POOLS_KEY).read_text()))
    kubectl.run("apply", "-k", str(OVERLAY), timeout_s=60)
    wait_ready(kubectl, (system.system, system.nodes), within_s=READY_S)
    before = standing(kubectl, system)

    kubectl.run("apply", "-k", str(OVERLAY), timeout_s=60)

    assert standing(kubectl, system) == before


class Load:
    """One-shots, and sessions' tasks, one after another; every one must have its result, every session all of its file."""

    def __init__(self, client: Client) -> None:
        """Run none yet."""
        self._client = client
        self.numbers = iter(range(1_000_000))
        self.done: list[int] = []
        self.failed: list[str] = []
        self.owners: list[set[str]] = []
        """Of each session: the pods in which its tasks ran."""

    async def keep_running(self, over: asyncio.Event) -> None:
        """Run one-shots until told otherwise; what goes wrong is noted."""
        while not over.is_set():
            number = next(self.numbers)
            result = await self._client.run(["echo", str(number)], pool="test-oci")
            self._note(number, result, f"{number}\n")

    async def keep_appending(self, over: asyncio.Event) -> None:
        """Append to a session's file until told otherwise; each task must find what all before it have written."""
        written, owners = "", set[str]()
        self.owners.append(owners)
        session = await self._client.create_session(pool="test-oci")
        while not over.is_set():
            number = next(self.numbers)
            written += f"{number}\n"
            result = await session.exec(f"echo {number} >> log; cat log")
            self._note(number, result, written)
            owners.add(result.raw.worker)
        await session.close()

    def _note(self, number: int, result: Result, expected: str) -> None:
        if result.status == "ok" and result.stdout == expected:
            self.done.append(number)
        else:
            self.failed.append(f"{number}: {result.status} {result.raw.error} {result.stdout!r}")


async def under_load(site: Site, replace: Callable[[], Awaitable[None]]) -> Load:
    """Run tasks before, while and after something is replaced; return what became of them."""
    async with site.client(site.service()) as client:
        load, over = Load(client), asyncio.Event()
        await client.run("true", pool="test-oci")  # what is there works
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(load.keep_running(over))
                group.create_task(load.keep_appending(over))
            try:
                await replace()
                seen = len(load.done)
                await until(lambda: len(load.done) >= seen + 2 * AT_ONCE, within_s=60)
            finally:
                over.set()
    return load


@pytest.mark.timeout(400, func_only=True)
@pytest.mark.parametrize(
    "workload",
    [
        "statefulset/nats",
        "deployment/pool-manager",
        "deployment/provisioner",
        "deployment/gateway",
        "daemonset/checkpointer",
    ],
)
async def test_replaced_pod_by_pod_under_load_no_task_is_lost(
    kubectl: Kubectl, system: Namespaces, workload: str
) -> None:
    """`kubectl rollout restart` while tasks run: each ends with its own output, none fails, and no session's file lacks a line."""
    space = system.nodes if workload.startswith("daemonset/") else system.system

    async def replace() -> None:
        await asyncio.to_thread(kubectl.run, "rollout", "restart", workload, "-n", space)
        words = ("rollout", "status", workload, "-n", space, f"--timeout={ROLLED_S}s")
        await asyncio.to_thread(lambda: kubectl.run(*words, timeout_s=ROLLED_S + 10))

    async with open_site() as site:
        load = await under_load(site, replace)

    assert load.failed == []
    assert len(load.done) >= 2 * AT_ONCE
    assert len(load.done) == len(set(load.done))


@pytest.mark.timeout(300, func_only=True)
async def test_a_pool_s_new_form_replaces_its_warm_pods_and_leaves_sessions_theirs(
    kubectl: Kubectl, system: Namespaces
) -> None:
    """Other limits are declared while tasks run: none fails, sessions keep their pods, and all that wait are of the new form."""
    former = next(pool for pool in POOLS if pool.name == "test-oci")
    limits = msgspec.structs.replace(former.limits, memory_mib=former.limits.memory_mib + 64)
    newer = msgspec.structs.replace(former, limits=limits)
    wanted = f"{limits.memory_mib}Mi"

    def of_new_form() -> int:
        pods = kubectl.list("pods", namespace=system.pods, labels="agent-sandbox.dev/pool=test-oci")
        return sum(memory_of(pod) == wanted for pod in pods if pod["status"]["phase"] == "Running")

    async def replace() -> None:
        await asyncio.to_thread(redeclare, kubectl, system, newer)
        await until(
            lambda: asyncio.to_thread(lambda: of_new_form() >= former.stock), within_s=FORMED_S
        )

    async with open_site() as site:
        await site.wait_warm("test-oci", former.stock)
        try:
            load = await under_load(site, replace)
        finally:
            await asyncio.to_thread(redeclare, kubectl, system, former)

    assert load.failed == []
    assert {len(owners) for owners in load.owners} == {1}, load.owners


def redeclare(kubectl: Kubectl, spaces: Namespaces, pool: PoolSpec) -> None:
    """Declare a pool anew; the others stay."""
    declare(kubectl, spaces, (*others(kubectl, spaces, {pool.name}), pool))


def memory_of(pod: Object) -> str:
    """Return what a worker pod's sandbox may have of memory."""
    sandbox = next(one for one in pod["spec"]["containers"] if one["name"] == "sandbox")
    return str(sandbox["resources"]["limits"]["memory"])
