"""Real nodes on this machine, for each isolation class that it has."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

KIT = str(Path(__file__).parent / "kit")
if KIT not in sys.path:
    sys.path.insert(0, KIT)  # the worker zygote imports the test sidecar from there by name

from drill import Background, Drill, is_there  # noqa: E402 - after the path is set
from scene import CONFINED, SECRET, Scene  # noqa: E402 - likewise

from shared.testing.ordinary import python_for_everybody  # noqa: E402 - likewise


@pytest.fixture(scope="session")
def everybodys_python() -> str:
    """An interpreter that every user of this machine may run."""
    python = python_for_everybody()
    if python is None:
        pytest.skip("no interpreter of this version that an ordinary user may run")
    return python


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def drill() -> AsyncIterator[Drill]:
    """A node with every class that this machine has, for the tests of one module."""
    python = python_for_everybody() if os.geteuid() == 0 else None
    background = Background(sandbox_python=python, read_only=(KIT,))
    yield await background.drill()
    await background.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=CONFINED)
async def scene(request: pytest.FixtureRequest, drill: Drill) -> AsyncIterator[Scene]:
    """Two pods of each class that the node offers, and a host file that its mode would let everybody read."""
    isolation = str(request.param)
    if drill.available[isolation]:
        pytest.skip(drill.available[isolation])
    secret = drill.folder / f"secret-{isolation}"
    secret.write_text(SECRET)
    secret.chmod(0o644)
    attacker = await drill.start(f"attacker-{isolation}", isolation)
    neighbour = await drill.start(f"neighbour-{isolation}", isolation)
    await neighbour.shell(f"echo '{SECRET}' > mine; chmod 0644 mine; chmod 0755 .")
    (neighbour.folder / "workspace").chmod(0o755)
    yield Scene(isolation, drill, attacker, neighbour, secret)
    for pod in (attacker, neighbour):
        if pod.name not in drill.ears.endings:
            await drill.end(pod)


@pytest_asyncio.fixture(loop_scope="module")
async def bystanders(scene: Scene) -> AsyncIterator[None]:
    """After every attack the neighbour works and has its file, and the attacker's own sidecar is there."""
    yield
    said = await scene.neighbour.shell("cat mine")
    assert said["stdout"] == SECRET + "\n", said
    assert is_there(scene.attacker.sidecar_pid)
    assert scene.secret.read_text() == SECRET
