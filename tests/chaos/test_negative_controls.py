"""The lab on builds that are broken on purpose: a verdict that were true there would prove nothing elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from soak_parts import unfenced

BEATS_WHILE_IDLE_ALONE = (
    (
        "worker_agent/loops/beat.py",  # as if user code ran where the heartbeat is sent from
        "            with contextlib.suppress(ServiceError):  # contact lost: the fence watches that\n"
        "                await self._contact.beat(self._beat())\n",
        "            if beat.task is None:\n"
        "                await self._contact.beat(self._beat())\n",
    ),
)
TAKES_S = 400


def run_broken(folder: Path, changes: unfenced.Changes, *words: str) -> tuple[int, dict[str, Any]]:
    """Run the lab on a build with these changes; return its exit code and its report."""
    unfenced.build(folder / "build", changes)
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "run", *words, "--quiet", "--out", str(folder / "out")],
        env={**os.environ, "PYTHONPATH": str(folder / "build")},
        capture_output=True,
        text=True,
        timeout=TAKES_S,
        check=False,
    )
    assert (folder / "out" / "report.json").exists(), done.stderr[-4000:]
    return done.returncode, json.loads((folder / "out" / "report.json").read_text())


@pytest.mark.slow
@pytest.mark.timeout(TAKES_S + 40)
def test_a_heartbeat_on_the_work_loop_is_caught(place: Path) -> None:
    """No fault at all, and owners are fenced in the middle of their longer turns."""
    code, found = run_broken(
        place,
        BEATS_WHILE_IDLE_ALONE,
        "quiet",
        "--seconds",
        "40",
        "--sessions",
        "12",
        "--nodes",
        "4",
        "--seed",
        "1",
    )

    assert code == 1, found["verdict"]
    assert found["verdict"]["counts"]["false"] > 0
    assert found["verdict"]["verdict"] == "false"
