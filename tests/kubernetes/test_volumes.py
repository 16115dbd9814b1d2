"""Workspaces on a volume that the pool's pods share: the next pod goes on with the same files, and nobody else writes there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from harness.site import Site, open_site
from kubernetes_parts.trees import differences, make_tree

from agent_sandbox import Client, NoResultYet, Session
from agent_sandbox.events import Output
from agent_sandbox.kubernetes.names import Namespaces
from agent_sandbox.places import TENANT
from shared.errors import ServiceError
from shared.kubectl import Kubectl
from shared.pools import PoolSpec, Volume
from shared.record import Record
from shared.testing.look import Look
from shared.testing.node_faults import NodeFaults

POOL, IN_GVISOR = "test-volume", "test-volume-gvisor"
BESIDE_NOTHING = PoolSpec(
    name="test-no-volume",
    stock=1,
    isolation="oci",
    workspace="pvc",
    volume=Volume(storage_class="nowhere"),
)
GOES_ON_S = 60.0
CLOSED_S = 30.0
RUNS_S = 120
"""Longest run of a program that nobody stops."""
WRITES = """
import os, time
log = open("log.txt", "a", buffering=1)
while True:
    log.write("open\\n")
    with open("by-name.txt", "a") as again:
        again.write("by name\\n")
    print("written", flush=True)
    time.sleep(0.02)
"""
"""Writes for ever, into a file that it holds open and into one that it opens each time."""
WATCHES = """
import os, sys, time
def sizes():
    return [os.stat(name).st_size for name in ("log.txt", "by-name.txt")]
first = sizes()
print("began", *first, flush=True)
while not os.path.exists("enough"):
    time.sleep(0.05)
print("ended", *sizes(), flush=True)
"""
"""Says at its first instruction how long both files are, and once more when it is told that it was long enough."""


def keepers(kubectl: Kubectl, spaces: Namespaces, pool: str = POOL) -> list[str]:
    """Return the pods of a pool's keepers that are ready."""
    pods = kubectl.list("pods", namespace=spaces.pods, labels=f"agent-sandbox.dev/volume-of={pool}")
    return [
        pod["metadata"]["name"]
        for pod in pods
        if all(one["ready"] for one in pod["status"].get("containerStatuses", [{"ready": False}]))
        and "deletionTimestamp" not in pod["metadata"]
    ]


def on_volume(kubectl: Kubectl, spaces: Namespaces, *words: str) -> str:
    """Return what a command says in a keeper, which has the whole volume."""
    keeper = keepers(kubectl, spaces)[0]
    return kubectl.run("exec", "-n", spaces.pods, keeper, "-c", "keeper", "--", *words)


@asynccontextmanager
async def opened(client: Client, pool: str) -> AsyncIterator[Session]:
    """A session, closed whatever became of the test: one that stays keeps a pod of the pool from those that come after."""
    session = await client.create_session(pool=pool)
    try:
        yield session
    finally:
        with suppress(NoResultYet, ServiceError):
            await session.close(wait_s=CLOSED_S)


async def begun(
    session: Session, code: str, word: bytes, wait_s: float = 2 * RUNS_S
) -> asyncio.Task[str]:
    """Start code, return once it has said a word; the task returned is its end: status and output."""
    task = await session.start_python(code, timeout_s=RUNS_S)

    async def finish() -> str:
        result = await task.result(wait_s=wait_s)
        return f"{result.status} {result.stdout}"

    async with asyncio.timeout(60):
        async for event in task.events():
            if isinstance(event, Output) and word in event.data:
                break
    return asyncio.create_task(finish())


async def owner_of(site: Site, session: Session) -> Record:
    """Return the record of a session that a worker has."""
    record = await Look(site.admin, TENANT).in_state(session.id, "running")
    assert record.owner is not None
    return record


@pytest.mark.parametrize("how", ["asked to leave", "at once"])
@pytest.mark.parametrize("pool", [POOL, IN_GVISOR])
async def test_another_pod_goes_on_with_the_same_files(
    system: Namespaces, tmp_path: Path, how: str, pool: str
) -> None:
    """After `kubectl delete pod` in mid-task, compared byte by byte; the task that was hit says so, and what it did is there."""
    async with open_site() as site, site.client() as client, AsyncExitStack() as closing:
        await site.wait_warm(pool, 2 if pool == POOL else 1)
        make_tree(tmp_path / "tree")
        session = await closing.enter_async_context(opened(client, pool))
        await session.upload_tree(tmp_path / "tree", "tree")
        hit = await begun(session, WRITES, b"written")
        before = await owner_of(site, session)

        at_once = ["--grace-period=0", "--force"] if how == "at once" else ["--wait=false"]
        began = time.monotonic()
        words = ("delete", "pod", before.owner, "-n", system.pods, *at_once)
        await asyncio.to_thread(site.kubectl.run, *words)
        assert (await hit).startswith("interrupted")
        size = await session.exec(["sh", "-c", "wc -c < by-name.txt"])
        took_s = time.monotonic() - began

        assert int(size.stdout) > 0
        after = await owner_of(site, session)
        assert after.owner != before.owner
        assert after.boundary is None, "nothing of it is in a snapshot"
        await session.download_tree("tree", tmp_path / "back")
        assert differences(tmp_path / "tree", tmp_path / "back") == []
    assert took_s < GOES_ON_S


async def test_a_node_that_was_cut_and_comes_back_writes_nothing_after_its_successor_began(
    system: Namespaces, faults: NodeFaults
) -> None:
    """The volume is reachable from it all the time. Its code stands still in time, by the sandbox's own clock; when the node
    is back it is ended, and not one byte has come into a file since the successor's first instruction."""
    async with open_site() as site, site.client() as client, AsyncExitStack() as closing:
        await site.wait_warm(POOL, 2)
        session = await closing.enter_async_context(opened(client, POOL))
        hit = await begun(session, WRITES, b"written")
        before = await owner_of(site, session)
        nodes = await asyncio.to_thread(site.worker_nodes)
        node = nodes[before.owner or ""]

        await asyncio.to_thread(faults.do, "cut", node)
        assert (await hit).startswith("interrupted")
        watching = await begun(session, WATCHES, b"began")
        await asyncio.to_thread(faults.mend, "cut", node)
        async with asyncio.timeout(GOES_ON_S):
            while before.owner in await asyncio.to_thread(site.worker_nodes):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.5)
        after = await owner_of(site, session)
        enough = f"/volume/pods/{after.owner}/files/enough"
        await asyncio.to_thread(on_volume, site.kubectl, system, "touch", enough)
        said = (await watching).split()

    assert said[0] == "ok", said
    began, ended = said[said.index("began") + 1 :][:2], said[said.index("ended") + 1 :][:2]
    assert all(int(size) > 0 for size in began)
    assert ended == began


async def test_a_sandbox_can_touch_nothing_beside_its_own_files(system: Namespaces) -> None:
    """Neither move its folder, nor make one beside it, nor see another session's."""
    tries = (
        "touch /workspace/x; mkdir /workspace/files2; mv /workspace/files /workspace/other; rmdir /workspace/files;"
        "chmod 777 /workspace"
    )
    async with open_site() as site, site.client() as client, AsyncExitStack() as closing:
        await site.wait_warm(POOL, 2)
        session = await closing.enter_async_context(opened(client, POOL))
        result = await session.exec(
            ["sh", "-c", f"({tries}) 2>&1; ls -A /workspace; pwd; touch mine && ls"]
        )
    refused, there = result.stdout.splitlines()[:-3], result.stdout.splitlines()[-3:]
    assert there == ["files", "/workspace/files", "mine"]
    assert len(refused) == 5, refused


async def test_the_files_of_a_session_go_with_it(system: Namespaces) -> None:
    """Its folder, its name and all that lay in it, whatever their modes."""
    shut = "mkdir -p shut/deep; echo x > shut/deep/f; chmod 500 shut/deep; chmod 0 shut"
    async with open_site() as site, site.client() as client, AsyncExitStack() as closing:
        await site.wait_warm(POOL, 2)
        session = await closing.enter_async_context(opened(client, POOL))
        await session.exec(["sh", "-c", shut])
        name = f"{TENANT}.{session.id}"
        there = await asyncio.to_thread(on_volume, site.kubectl, system, "ls", "/volume/sessions")
        assert name in there.split()

        await session.close()
        async with asyncio.timeout(GOES_ON_S):
            while name in await asyncio.to_thread(  # noqa: ASYNC110 - no event tells
                on_volume, site.kubectl, system, "ls", "/volume/sessions", "/volume/trash"
            ):
                await asyncio.sleep(0.5)


async def test_a_pool_whose_volume_can_not_be_had_says_so_and_starts_nothing(
    system: Namespaces, kubectl: Kubectl
) -> None:
    """The reason names the claim and its class; there is no pod."""
    pool, claim = BESIDE_NOTHING.name, f"workspaces-{BESIDE_NOTHING.name}"
    async with open_site([BESIDE_NOTHING]) as site:
        async with asyncio.timeout(GOES_ON_S):
            while "nowhere" not in (reason := (await site.view(pool)).reason):  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.5)
        assert claim in reason
        assert "Pending" in reason
        labels = f"agent-sandbox.dev/pool={pool}"
        assert kubectl.list("pods", namespace=system.pods, labels=labels) == []
    words = ("delete", "persistentvolumeclaim", claim, "-n", system.pods, "--wait=false")
    await asyncio.to_thread(kubectl.run, *words)
