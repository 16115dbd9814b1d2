"""What one pod may take of the machine, in each class; its neighbour has the rest."""

from __future__ import annotations

import asyncio
import json

import pytest
from drill import LIMITS, exists, is_there, until
from scene import Scene

from shared.testing import attacks

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("bystanders")]


async def test_a_fork_bomb_stays_in_its_pod(scene: Scene) -> None:
    """It meets the pod's own limit; the neighbour forks on; the pod's end is the bomb's end."""
    pod = await scene.drill.start(f"bomb-{scene.isolation}", scene.isolation)

    bombing = asyncio.ensure_future(pod.python(attacks.FORK_BOMB, timeout_s=20))
    await asyncio.wait({bombing}, timeout=3)
    if (
        "pids" in pod.sandbox["enforced"]
    ):  # else it is the sidecar's watch that ends it, not this test's
        assert await scene.neighbour.answers()
    gone = await scene.drill.end(pod, within_s=15)
    said = await bombing

    assert gone.cause == "deleted"
    if said.get("stdout"):
        told = json.loads(said["stdout"].splitlines()[0])
        assert told["why"] == "EAGAIN"
        assert told["made"] <= (LIMITS.pids if "pids" in pod.sandbox["enforced"] else 2000)
    assert not is_there(pod.sandbox_pid)


async def test_memory_ends_at_the_limit(scene: Scene) -> None:
    """The greedy process is killed or told; its pod goes on."""
    said = await scene.attacker.python(attacks.EAT_MEMORY, timeout_s=30)

    eaten = [int(word) for word in said["stdout"].split()]
    assert max(eaten, default=0) <= LIMITS.memory_mib, said
    assert said.get("signal") == 9 or "MemoryError" in said["stderr"], said
    assert await scene.attacker.answers()


async def test_a_file_ends_at_the_limit(scene: Scene) -> None:
    """One file never passes the disk limit; /tmp has a size of its own where it is one."""
    folders = [scene.attacker.sandbox["inner_workspace"]]
    if scene.isolation == "namespace":
        folders.append("/tmp")
    got = await scene.run(attacks.fill_disk(*folders))

    assert got["got"] == []
    assert await scene.attacker.answers()


async def test_a_deep_tree_is_removed_with_its_pod(scene: Scene) -> None:
    """Folders nested deeper than any path is long."""
    pod = await scene.drill.start(f"deep-{scene.isolation}", scene.isolation)
    code = "import os\nfor _ in range(3000):\n    os.mkdir('d' * 100); os.chdir('d' * 100)\nprint('deep')"
    said = await pod.python(code, timeout_s=30)
    assert said["stdout"] == "deep\n", said

    await scene.drill.end(pod)
    await scene.drill.machine.files.empty_trash()

    assert not exists(pod.folder)
    assert await until(lambda: not list((scene.drill.folder / "trash").iterdir()))
