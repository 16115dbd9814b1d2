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
UNFENCED = (
    *unfenced.CHANGES,
    (
        "checkpointer/core/asks.py",  # whoever asks has its workspace saved
        "    if record is None or not is_mine(record, hold):\n",
        "    if record is None:\n",
    ),
    (
        "pool_manager/loops/rescue.py",  # and nobody ends its pod
        "            await self._pods.delete(node, pod, DELETE_GRACE_S)\n",
        "            pass\n",
    ),
    (
        "pool_manager/loops/refill.py",
        "        await self._pods.delete(node, pod, DELETE_GRACE_S)\n",
        "        pass\n",
    ),
)
SYNCED_EVERY_TWO_MINUTES = (
    ("shared/cluster/config.py", "  sync_interval: always\n", ""),  # nats-server's own default
)
START_S = 7.0
SLOW_STARTS = (
    (
        "local_node/loops/run_pod.py",  # as on a machine that pulls an image for each pod
        "        async with starting:\n            if pod.ending",
        f"        await asyncio.sleep({START_S})\n        async with starting:\n            if pod.ending",
    ),
)
TAKES_S, ENDS_S = 400, 60


def run_broken(folder: Path, changes: unfenced.Changes, *words: str) -> tuple[int, dict[str, Any]]:
    """Run the lab on a build with these changes; return its exit code and its report."""
    unfenced.build(folder / "build", changes)
    with subprocess.Popen(
        [sys.executable, "-m", "chaos", "run", *words, "--quiet", "--out", str(folder / "out")],
        env={**os.environ, "PYTHONPATH": str(folder / "build")},
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        try:
            _, said = run.communicate(timeout=TAKES_S)
        except subprocess.TimeoutExpired:
            run.terminate()  # it leaves nothing running
            _, said = run.communicate(timeout=ENDS_S)
    if "no small disk can be had" in said:
        pytest.skip("the ground can't be laid")
    assert (folder / "out" / "report.json").exists(), said[-4000:]
    return run.returncode, json.loads((folder / "out" / "report.json").read_text())


@pytest.mark.slow
@pytest.mark.timeout(TAKES_S + ENDS_S + 20)
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


@pytest.mark.slow
@pytest.mark.timeout(TAKES_S + ENDS_S + 20)
def test_zombies_that_nothing_fences_are_caught(place: Path) -> None:
    """Nodes stand still until others have their sessions, then go on as if nothing was: what they do is done twice."""
    words = ["nodes-stopped", "--sessions", "60", "--nodes", "5", "--seed", "1"]

    code, found = run_broken(place, UNFENCED, *words)

    counts = found["verdict"]["counts"]
    assert code == 1, found["verdict"]
    assert found["verdict"]["verdict"] == "false"
    assert counts["dup"] + counts["zombie"] + counts["fork"] > 0


@pytest.mark.slow
@pytest.mark.timeout(TAKES_S + ENDS_S + 20)
def test_servers_that_do_not_sync_what_they_acknowledge_are_caught(place: Path) -> None:
    """Their power fails, and what users were told is done is gone."""
    # Whoever waits for what is gone waits in vain.
    words = ["power-loss", "--sessions", "12", "--nodes", "3", "--seed", "1", "--drain", "5"]

    code, found = run_broken(place, SYNCED_EVERY_TWO_MINUTES, *words)

    assert code == 1, found["verdict"]
    assert found["verdict"]["counts"]["lost"] > 0


@pytest.mark.slow
@pytest.mark.timeout(TAKES_S + ENDS_S + 20)
def test_a_pool_without_a_reserve_for_faults_is_caught(place: Path) -> None:
    """Where a worker takes long to start, whoever lost its own waits for that: the fault's bounds are missed."""
    words = ["nodes-killed", "--sessions", "30", "--nodes", "5", "--seed", "1", "--drain", "20"]
    words += ["--stock", "1", "--one-shots", "0.5"]

    _, found = run_broken(place, SLOW_STARTS, *words)

    assert found["figures"]["recover_p95_s"] > START_S
    assert found["figures"]["recover_p95_s"] > found["targets"]["recover_p95_s"]["reach"]
