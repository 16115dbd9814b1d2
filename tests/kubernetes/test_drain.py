"""A node is drained as before maintenance: `kubectl drain`, and whoever works there is asked to leave in good order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from harness.site import Site, open_site

from agent_sandbox import Client, Result, RunningTask, Session
from agent_sandbox.events import Output
from agent_sandbox.kubernetes.names import Namespaces
from agent_sandbox.places import TENANT
from shared.kubectl import Kubectl, wait_ready
from shared.pools import PoolSpec
from shared.record import Record
from shared.testing.look import Look, until
from shared.testing.names import unique

POOL = PoolSpec(
    name=unique("drain"),
    stock=6,
    pods_max=30,
    isolation="oci",
    checkpoint_every_s=600,
    idle_release_s=3600,
)
"""Nothing is saved in the middle of a task but what is saved on the way out. Its name is its own: sessions that a failed run has
left would hold its workers."""
SESSIONS = 6
RESTING = 3
DRAINED_S = 150
READY_S = 240.0
BUDGETS = ("nats", "pool-manager", "gateway")
CODE = """
import os, time
with open("log.txt", "a") as log:
    log.write("attempt " + os.environ["AGENT_SANDBOX_ATTEMPT"] + "\\n")
print("written", flush=True)
while os.environ["AGENT_SANDBOX_ATTEMPT"] == "1":
    time.sleep(0.1)
print(open("log.txt").read(), end="")
"""
"""Its first attempt goes on for ever: only the end of its pod ends it."""


@contextmanager
def uncordoned(kubectl: Kubectl, node: str) -> Iterator[None]:
    """Let pods onto the node again behind the block."""
    try:
        yield
    finally:
        kubectl.run("uncordon", node)


async def begin(client: Client, number: int) -> tuple[Session, RunningTask]:
    """Return a session with a file of its own, in the middle of a task."""
    session = await client.create_session(pool=POOL.name)
    await session.write("own.txt", f"{number}".encode())
    task = await session.start_python(CODE, timeout_s=240, on_interrupt="resume")
    async with asyncio.timeout(60):
        async for event in task.events():
            if isinstance(event, Output) and b"written" in event.data:
                break
    return session, task


async def owner_of(site: Site, session: Session) -> tuple[str, str]:
    """Return the pod that has a session, and that pod's node; empty where nobody has it."""
    look = Look(site.admin, TENANT)
    record: Record = await until(lambda: look.record(session.id))
    return record.owner or "", record.node or ""


def ready_of(kubectl: Kubectl, space: str) -> Counter[str]:
    """Return how many pods of each application are ready."""
    return Counter(
        pod["metadata"]["labels"].get("app.kubernetes.io/name", "")
        for pod in kubectl.list("pods", namespace=space)
        if any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in pod["status"].get("conditions", ())
        )
    )


@asynccontextmanager
async def watched(kubectl: Kubectl, space: str) -> AsyncIterator[Counter[str]]:
    """Note the fewest ready pods of each application that were seen inside the block."""
    fewest: Counter[str] = ready_of(kubectl, space)

    async def watch() -> None:
        while True:
            seen = await asyncio.to_thread(ready_of, kubectl, space)
            for name in fewest:
                fewest[name] = min(fewest[name], seen[name])
            await asyncio.sleep(0.3)

    watching = asyncio.create_task(watch())
    try:
        yield fewest
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def keep_asking(client: Client, over: asyncio.Event) -> list[Result]:
    """Run one-shots, one after another, until told otherwise."""
    results = []
    while not over.is_set():
        results.append(await client.run("echo fine", pool=POOL.name))
    return results


@pytest.mark.timeout(500, func_only=True)
async def test_a_drained_node_s_sessions_go_on_elsewhere_with_what_they_had_done(
    system: Namespaces, kubectl: Kubectl
) -> None:
    """Each saves what its task has done so far, and its task goes on from there in another pod; those that rest, and all that
    is asked meanwhile, notice nothing; budgets keep servers and services up."""
    async with open_site([POOL]) as site, site.client(site.service()) as client:
        await site.wait_warm(POOL.name, POOL.stock)
        begun = [await begin(client, number) for number in range(SESSIONS)]
        resting = [await client.create_session(pool=POOL.name) for _ in range(RESTING)]
        for session in resting:
            await session.write("own.txt", session.id.encode())
        places = {session.id: await owner_of(site, session) for session, _ in begun}
        node = Counter(place for _, place in places.values()).most_common(1)[0][0]
        hit = [one for one in begun if places[one[0].id][1] == node]
        assert hit

        over = asyncio.Event()
        asking = asyncio.create_task(keep_asking(client, over))
        with uncordoned(kubectl, node):
            async with watched(kubectl, system.system) as fewest:
                await asyncio.to_thread(drain, kubectl, node)
                results = await asyncio.gather(*(task.result(wait_s=120) for _, task in hit))
            left = await asyncio.to_thread(site.worker_nodes)
        over.set()
        asked = await asking

        said = [(result.status, result.stdout) for result in results]
        assert said == [("ok", "written\nattempt 1\nattempt 2\n")] * len(hit), results
        assert node not in left.values()
        assert {result.status for result in asked} == {"ok"}, asked
        for name in BUDGETS:
            assert fewest[name] >= (2 if name == "nats" else 1), fewest
        await check_the_rest(site, [one for one in begun if one not in hit], places)
        for number, (session, _) in enumerate(begun):
            assert await session.read("own.txt") == f"{number}".encode()
        for session in resting:
            assert await session.read("own.txt") == session.id.encode()
        for session in (*(session for session, _ in begun), *resting):
            await session.close()
    await asyncio.to_thread(wait_ready, kubectl, (system.system, system.nodes), within_s=READY_S)


def drain(kubectl: Kubectl, node: str) -> None:
    """As its operator would."""
    words = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force")
    kubectl.run(*words, f"--timeout={DRAINED_S}s", timeout_s=DRAINED_S + 10)


async def check_the_rest(
    site: Site,
    others: list[tuple[Session, RunningTask]],
    places: dict[str, tuple[str, str]],
) -> None:
    """Check that tasks on other nodes were left alone; end them."""
    for session, task in others:
        assert await owner_of(site, session) == places[session.id]
        await task.cancel()
        assert (await task.result(wait_s=60)).status == "cancelled"
