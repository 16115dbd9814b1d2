"""What the Tiltfile's buttons run, on a real cluster."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

from harness.site import open_site

from agent_sandbox.kubernetes.names import Namespaces

SCRIPTS = Path(__file__).parents[2] / "deploy" / "tilt"
POOL = "test-oci"


def press(script: str, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run what a button runs, with what was written into its fields."""
    return subprocess.run(
        [SCRIPTS / script],
        env={**os.environ, **inputs},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_task_is_published_and_its_output_shown(system: Namespaces) -> None:
    """In the pool that is named, by a shell's line; its exit code is the button's."""
    said = press(
        "publish-task.sh", TASK_POOL=POOL, TASK_COMMAND="echo from $(whoami || id -u); exit 3"
    )

    assert said.stdout.startswith("from "), said.stderr
    assert said.returncode == 3


async def test_the_worker_pods_of_a_node_are_killed_and_replaced(system: Namespaces) -> None:
    """Those of no other node; the pool is full again by itself."""
    async with open_site() as site:
        await site.wait_warm(POOL, 4)
        before = await asyncio.to_thread(site.worker_nodes)
        node = next(where for pod, where in before.items() if pod.startswith(POOL))

        said = await asyncio.to_thread(press, "kill-node-pods.sh", NODE=node)
        assert said.returncode == 0, said.stderr
        await site.wait_warm(POOL, 4)

        after = await asyncio.to_thread(site.worker_nodes)
    killed = {pod for pod, where in before.items() if where == node}
    assert killed
    assert killed.isdisjoint(after)
    assert f"node {node}" in said.stdout
