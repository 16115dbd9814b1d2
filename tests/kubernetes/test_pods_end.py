"""A session's pod ends in the middle of a task: it goes on in another one, with all its files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from harness.site import Site, open_site
from kubernetes_parts.trees import differences, make_tree

from agent_sandbox import Client, Session
from agent_sandbox.events import Output
from agent_sandbox.kubernetes.names import Namespaces
from agent_sandbox.places import TENANT
from shared.record import Record
from shared.testing.look import Look

POOL = "test-oci"
GOES_ON_S = 60.0
CODE = """
import os, time
with open("log.txt", "a") as log:
    log.write("attempt " + os.environ["AGENT_SANDBOX_ATTEMPT"] + "\\n")
print("written", flush=True)
while os.environ["AGENT_SANDBOX_ATTEMPT"] == "1":
    time.sleep(0.1)
"""
"""Its first attempt goes on for ever: only the end of its pod ends it."""


async def begin(client: Client, folder: Path) -> tuple[Session, asyncio.Task[float]]:
    """Return a session with files, in the middle of a task; and what will be the time of that task's result."""
    make_tree(folder)
    session = await client.create_session(pool=POOL)
    await session.upload_tree(folder, "tree")
    task = await session.start_python(CODE, timeout_s=240)
    async with asyncio.timeout(30):
        async for event in task.events():
            if isinstance(event, Output) and b"written" in event.data:
                break

    async def finish() -> float:
        result = await task.result(wait_s=240)
        assert result.status == "ok", result.raw
        assert result.raw.attempt == 2, result.raw
        return time.monotonic()

    return session, asyncio.create_task(finish())


async def check(site: Site, session: Session, before: Record, tree: Path, back: Path) -> Record:
    """Check that the session has all its files, in another pod under a higher epoch; return its record."""
    await session.download_tree("tree", back)
    assert differences(tree, back) == []
    log = await session.read("log.txt")
    assert log == b"attempt 2\n"  # the first attempt's line was rolled back with it
    record = await Look(site.admin, TENANT).record(session.id)
    assert record is not None
    assert record.epoch > before.epoch
    assert record.owner != before.owner
    return record


@pytest.mark.parametrize("how", ["asked to leave", "at once"])
async def test_a_pod_deleted_by_hand_in_mid_task_goes_on_elsewhere_with_all_its_files(
    system: Namespaces, tmp_path: Path, how: str
) -> None:
    """By `kubectl delete pod`, with and without the time that it asks for. Files are compared byte by byte."""
    async with open_site() as site, site.client() as client:
        await site.wait_warm(POOL, 4)
        session, finishing = await begin(client, tmp_path / "tree")
        before = await Look(site.admin, TENANT).in_state(session.id, "running")
        assert before.owner is not None
        at_once = ["--grace-period=0", "--force"] if how == "at once" else ["--wait=false"]

        began = time.monotonic()
        words = ("delete", "pod", before.owner, "-n", system.pods, *at_once)
        await asyncio.to_thread(site.kubectl.run, *words)
        took_s = await finishing - began

        await check(site, session, before, tmp_path / "tree", tmp_path / "back")
        await session.close()
    assert took_s < GOES_ON_S


def sidecar_of(pod: str) -> int:
    """Return the process of a pod's sidecar, where the nodes are this machine's own.

    Raises:
        LookupError: there is none here.
    """
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not entry.name.isdigit():
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"/opt/agent-sandbox/worker" in words and f"POD_NAME={pod}".encode() in (
                entry / "environ"
            ).read_bytes().split(b"\0"):
                return int(entry.name)
    raise LookupError(f"no sidecar of {pod} on this machine")


async def test_a_sidecar_that_is_killed_never_pulls_again_and_its_session_goes_on_elsewhere(
    system: Namespaces, tmp_path: Path
) -> None:
    """Kubernetes restarts it alone, in the same pod: its marker says so, and the pod ends. What is published next runs
    elsewhere, and the pod that was hit is gone."""
    async with open_site() as site, site.client() as client:
        await site.wait_warm(POOL, 4)
        session, finishing = await begin(client, tmp_path / "tree")
        before = await Look(site.admin, TENANT).in_state(session.id, "running")
        assert before.owner is not None
        try:
            victim = await asyncio.to_thread(sidecar_of, before.owner)
        except LookupError as exc:
            finishing.cancel()
            pytest.skip(f"nodes are other machines: {exc}")

        began = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        took_s = await finishing - began

        after = await check(site, session, before, tmp_path / "tree", tmp_path / "back")
        results = await asyncio.gather(
            *(client.run("true", pool=POOL) for _ in range(6)), session.exec("true")
        )
        assert before.owner not in {result.raw.worker for result in results}
        assert after.owner == results[-1].raw.worker
        async with asyncio.timeout(GOES_ON_S):
            while before.owner in await asyncio.to_thread(site.worker_nodes):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.5)
        await session.close()
    assert took_s < GOES_ON_S
