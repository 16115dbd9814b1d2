"""The benchmarks on Kubernetes as a person runs them, as short as they can be: nodes fail under sessions, nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kubernetes_parts.volume_figures import HARM
from tests.kubernetes.conftest import SHARED_CLASS

from agent_sandbox.kubernetes.names import Namespaces
from shared.testing.node_faults import NodeFaults

FOLDER = Path(__file__).parents[2] / "benchmarks"


def bench(name: str, words: str) -> tuple[str, dict[str, Any]]:
    """Run a benchmark to its end; return what it printed, and its last line."""
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", *words.split()],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.stdout, done.stderr
    return f"{done.stderr}\n{done.stdout}", json.loads(done.stdout.splitlines()[-1])["figures"]


@pytest.mark.timeout(600)
def test_sessions_go_on_when_a_node_loses_power_hangs_or_is_cut_off(
    system: Namespaces, faults: NodeFaults
) -> None:
    """One round of each. Nothing lost or doubled, and no write of a zombie lands: what hung and what was cut off comes back
    while its sessions are elsewhere. How fast, a quiet machine tells."""
    words = "--rounds 1 --hangs 1 --cuts 1 --sessions 12 --stock 8 --rate 3 --seed 1"
    said, found = bench("kubernetes-recovery", words)

    bad = ("lost", "doubled", "zombie", "user_errors", "not_recovered")
    assert {name: found[name] for name in bad} == dict.fromkeys(bad, 0), said
    assert (found["rounds"], found["rounds_hang"], found["rounds_cut"]) == (1, 1, 1)
    assert found["hits_in_task"] > 0
    assert found["accepted"] == found["finished"] > 100
    assert {"detect_p95_s", "recover_p95_s", "kubernetes_not_ready_s"} <= set(found)


@pytest.mark.timeout(400)
def test_the_time_to_interactive_is_measured(system: Namespaces) -> None:
    """All parts but the burst, which needs fifty pods, and the writes of claims, which tests of their own count."""
    words = "--calls 5 --stock 8 --starts 2 --only rates --only demand-runc --only demand-gvisor"
    said, found = bench("kubernetes-tti", words)

    assert {name: value for name, value in found.items() if "lost" in name and value} == {}, said
    assert {"warm_p50_ms_1", "warm_p99_ms_10", "on_demand_p50_ms_gvisor"} <= set(found)


@pytest.mark.timeout(400)
def test_a_session_on_a_volume_goes_on_when_its_pod_is_taken(system: Namespaces) -> None:
    """By force, twice: the same files, no write of who was before, and the task that was hit says so. Nodes that are cut off are tests
    of their own."""
    words = "--deletes 0 --nows 0 --kills 2 --poweroffs 0 --cuts 0 --stock 2 --storage-class"
    said, found = bench("kubernetes-pvc", f"{words}={os.environ.get(SHARED_CLASS, '')}")

    assert {name: found[name] for name in HARM} == dict.fromkeys(HARM, 0), said
    assert (found["pvc_rounds"], "pvc_remount_p95_s" in found) == (2, True)
