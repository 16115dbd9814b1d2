"""The demo keeps its own promises, and fails loudly when it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_demo_ends_as_promised_and_leaves_nothing() -> None:
    """Exit code 0 within two minutes, every promise kept, no file left."""
    with tempfile.TemporaryDirectory(prefix="agent-sandbox-e2e-") as place:
        Path(place).chmod(0o711)
        done = subprocess.run(
            [sys.executable, "-m", "agent_sandbox.demo"],
            env={**os.environ, "TMPDIR": place},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        left = list(Path(place).iterdir())

    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT" not in done.stdout
    assert "All as promised" in done.stdout
    assert left == []


@pytest.mark.slow
def test_a_demo_that_cannot_start_says_so_and_fails(tmp_path: Path) -> None:
    """No usable isolation: exit code 1, the reason, and nothing left."""
    done = subprocess.run(
        [sys.executable, "-m", "agent_sandbox.demo", "--isolation", "kata"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert done.returncode == 1
    assert "no usable isolation for pool 'default'" in done.stdout
    assert "NOT as promised" in done.stdout
    assert list(tmp_path.iterdir()) == []
