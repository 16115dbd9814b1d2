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

from drill import Background, Drill  # noqa: E402 - after the path is set
from ordinary import python_for_everybody  # noqa: E402 - likewise


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
