"""Tasks in pods of Kubernetes: they run in the class that their pool promises, and a claim writes nothing to the API server."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
from harness.api import of_pool, writes_between
from harness.site import open_site

from agent_sandbox.kubernetes.names import Namespaces
from shared.kubectl import Kubectl
from shared.testing import audit

CODE = "import time\nprint(time.time_ns(), flush=True)\ntime.sleep(3)"


@pytest.mark.parametrize("isolation", ["oci", "gvisor"])
async def test_a_task_runs_in_a_pod_of_the_class_that_its_pool_promises(
    system: Namespaces, isolation: str
) -> None:
    """The result names pod, node and class; the API server knows that pod on that node."""
    pool = f"test-{isolation}"
    async with open_site() as site, site.client() as client:
        await site.wait_warm(pool, 4 if isolation == "oci" else 1)
        nodes = await asyncio.to_thread(site.worker_nodes)

        result = await client.run(["cat", "/proc/version"], pool=pool)

    assert result.status == "ok", result.raw
    assert result.raw.isolation == isolation
    assert nodes[result.raw.worker] == result.raw.node
    assert ("gvisor" in result.stdout.lower()) == (isolation == "gvisor"), result.stdout


async def test_a_warm_claim_writes_nothing_to_the_api_server(
    system: Namespaces, audit_log: Path, kubectl: Kubectl
) -> None:
    """On a pool that may have no further pod: from the first call to the last instruction of user code, nobody writes
    anything that concerns us. Afterwards there are writes, so the log is the right one."""
    said = json.loads(kubectl.run("auth", "whoami", "-o", "json"))
    me = said["status"]["userInfo"]["username"]
    async with open_site() as site, site.client() as client:
        await site.wait_warm("test-still", 6)
        await client.run("true", pool="test-oci")  # what a first call costs is not a claim's

        began_s = time.time()
        tasks = [await client.start(code=CODE, pool="test-still") for _ in range(6)]
        results = [await task.result() for task in tasks]
        started_s = max(int(result.stdout.split()[0]) / 1e9 for result in results)
        await site.wait_warm("test-still", 6)

    ours = tuple(system)
    on_the_way = writes_between(audit_log, (began_s, started_s), ours, me)
    afterwards = writes_between(audit_log, (started_s, time.time()), ours, me)
    of_claims = of_pool(on_the_way, system.pods, "test-still")
    assert audit.count(of_claims, audit.by_user_and_verb) == {}
    assert of_pool(afterwards, system.pods, "test-still") != []
