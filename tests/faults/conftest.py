"""The drive lies beside the benchmarks, which are no installed package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agent_sandbox.places import FAILPOINTS_VARIABLE

# Behind all others: `benchmarks/gateway.py` has the name of a package of ours.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))


@pytest.fixture(autouse=True)
def no_plans_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drive names its plans in the environment; tests that come later must not look for them."""
    monkeypatch.setenv(FAILPOINTS_VARIABLE, "")
