"""Folders for runs of the lab; and a part of the benchmarks, which are no installed package, that makes broken builds."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Behind all others: `benchmarks/chaos.py` has the name of a package of ours.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that sandboxes with a user of their own can pass through."""
    with tempfile.TemporaryDirectory(prefix="agent-sandbox-lab-") as name:
        Path(name).chmod(0o711)
        yield Path(name)
