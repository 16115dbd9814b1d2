"""`bench soak` and its negative control, as a person runs them, in short."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "soak.py"


def soak(*words: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run the benchmark; return how it ended and its figures."""
    done = subprocess.run(
        [sys.executable, PROGRAM, *words], capture_output=True, text=True, timeout=170, check=False
    )
    assert done.stdout, done.stderr
    return done, json.loads(done.stdout.splitlines()[-1])["figures"]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_nothing_is_lost_or_doubled_under_kills() -> None:
    """Twenty seconds of the same; how much of the load and the kills fits into them is the machine's affair."""
    done, found = soak("--seconds", "20", "--seed", "1")

    bad = {
        kind: found[kind]
        for kind in ("lost", "doubled", "disordered", "failed", "quarantined", "stale", "refused")
        if found[kind]
    }
    assert not bad, done.stdout
    assert found["accepted"] == found["finished"] > 100
    assert found["kills_in_task"] > 0
    assert found["leader_kills"] > 0
    assert found["journals"] > 100


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_without_fencing_the_checker_finds_what_zombies_do() -> None:
    """A checker that passed this would prove nothing elsewhere."""
    done, found = soak("--negative-control")

    assert done.returncode == 0, done.stdout + done.stderr
    assert found["doubled"] > 0
    assert found["stale"] > 0
