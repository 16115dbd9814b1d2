"""Chaos on every change: 60 sessions, 30 % of the nodes killed, then the queue's leader; all checkers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.adapters.history_file import read_history
from chaos.core.verdict import judge

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "chaos.py"
ZERO = ("lost", "dup", "fork", "stale", "zombie", "conserve", "order")
SESSIONS, HIT_MIN = 60, 6


@pytest.mark.slow
@pytest.mark.timeout(480)
def test_sixty_sessions_come_through_the_loss_of_nodes_and_of_the_queues_leader(
    place: Path,
) -> None:
    """Nothing is lost, doubled, forked or stale. How fast it went is the machine's affair, and stands in the figures."""
    out = place / "out"
    done = subprocess.run(
        [sys.executable, PROGRAM, "--short", "--seed", "1", "--out", out],
        capture_output=True,
        text=True,
        timeout=460,
        check=False,
    )

    assert done.stdout, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    found = said["figures"]
    assert {kind: found[kind] for kind in ZERO} == dict.fromkeys(ZERO, 0), done.stdout
    assert found["sessions"] >= SESSIONS - 2
    assert found["sessions_hit"] >= HIT_MIN
    assert done.returncode == (0 if said["ok"] else 1), done.stdout
    history = read_history(out / "history.jsonl")
    verdict, holes = judge(history), history.footer.unseen if history.footer else 0
    # What a dying server did not tell may be overwritten before it is read: then that, and nothing else, is not known.
    assert (verdict.verdict, len(verdict.unknowns)) == (("unknown", 1) if holes else ("true", 0)), (
        verdict
    )
    assert [row.fault for row in history.nemesis if row.type == "inject"] == [
        "nodes-killed", "queue-leader-killed",
    ]  # fmt: skip
    assert len(next(row for row in history.nemesis if row.type == "inject").targets) == 3
    assert verdict.looked_at["journals"] >= SESSIONS - 2
    assert "<svg" in (out / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_an_aborted_run_leaves_nothing_running_and_a_history_that_is_unknown(
    place: Path,
) -> None:
    """SIGTERM in the middle of a fault: dead nodes are no obstacle to the end."""
    out = place / "out"
    words = ["run", "nodes-killed", "--sessions", "6", "--nodes", "3", "--quiet", "--out", str(out)]
    with subprocess.Popen(
        [sys.executable, "-m", "chaos", *words],
        env={**os.environ, "TMPDIR": str(place)},
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stderr is not None
        try:
            for line in run.stderr:
                if "nodes-killed: node-" in line:
                    break
            run.send_signal(signal.SIGTERM)
            said = run.stderr.read()
            assert run.wait(timeout=60) == 130, said
        finally:
            run.kill()

    verdict = judge(read_history(out / "history.jsonl"))
    assert verdict.verdict == "unknown"
    assert "the run was aborted" in verdict.unknowns
    assert _left(place.name) == []
    assert [path.name for path in place.iterdir()] == ["out"]


def _left(word: str) -> list[str]:
    """Return the processes that a run has left: its folder stands in their command or environment."""
    until = time.monotonic() + 10
    while True:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                except OSError:
                    continue
                if word.encode() in said:
                    found.append(said[:200].replace(b"\0", b" ").decode(errors="replace"))
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.2)
