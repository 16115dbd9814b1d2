"""Types as users' checkers see them."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_users_code_is_checked_by_our_types() -> None:
    """Return types, options by name and type; a mistake that is not found is an unused `ignore`."""
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", "sdk/tests/typing/use.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_package_says_that_it_is_typed() -> None:
    """Else checkers take nothing from it."""
    assert files("agent_sandbox").joinpath("py.typed").is_file()
