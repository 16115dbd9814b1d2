"""Real nodes on this machine, for each isolation class that it has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import pytest
import pytest_asyncio

KIT = str(Path(__file__).parent / "kit")
if KIT not in sys.path:
    sys.path.insert(0, KIT)  # the worker zygote imports the test sidecar from there by name

from drill import Background, Drill  # noqa: E402 - after the path is set

ORDINARY_UID = 1000


@cache
def python_for_everybody() -> str | None:
    """Return an interpreter of our version that every user of this machine may run; None: there is none."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
    path = os.pathsep.join(entry for entry in sys.path if entry)
    for candidate in (base, f"/usr/local/bin/{version}", f"/usr/bin/{version}"):
        command = [candidate, "-c", "import msgspec, structlog, local_node, sandbox_runner, pytest"]
        user = {"user": ORDINARY_UID, "group": ORDINARY_UID, "extra_groups": []}
        try:
            done = subprocess.run(
                command,
                env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                check=False,
                timeout=30,
                cwd="/",
                **(user if os.geteuid() == 0 else {}),  # type: ignore[arg-type]  # a mix of types
            )
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    return None


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
