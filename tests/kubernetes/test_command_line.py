"""The command line on a cluster: reached by a context of the kubeconfig alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from agent_sandbox.kubernetes.judge import ClusterReport
from agent_sandbox.kubernetes.names import Namespaces

PROGRAM = Path(sys.executable).parent / "agent-sandbox"


def agent_sandbox(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        [PROGRAM, *words],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_doctor_finds_nothing_that_fails(system: Namespaces) -> None:
    """On a system that runs; what this cluster lacks (Kata, for one) is a detail, or a warning with what to do."""
    done = agent_sandbox("k8s", "doctor", "--json")

    report = msgspec.json.decode(done.stdout, type=ClusterReport)
    assert done.returncode == 0, done.stdout
    assert {each.name for each in report.checks} >= {"nats", "pools", "services", "isolation"}
    assert [each for each in report.checks if each.verdict != "ok" and not each.do] == []


def test_the_doctor_of_a_cluster_without_the_system_says_how_to_set_it_up(
    system: Namespaces,
) -> None:
    """By looking where it would be."""
    done = agent_sandbox("k8s", "doctor", "--namespace", "nobody-is-here")

    assert done.returncode == 1
    assert "kubectl apply -k" in done.stdout


def test_a_task_is_run_through_a_context_of_the_kubeconfig(system: Namespaces) -> None:
    """Nothing but the context's name is needed; `.` is the current one."""
    done = agent_sandbox("run", "--context", ".", "--pool", "test-oci", "--", "echo", "from a pod")

    assert (done.returncode, done.stdout) == (0, "from a pod\n"), done.stderr


def test_sessions_and_pools_are_seen_through_a_context(system: Namespaces) -> None:
    """As with any other cluster."""
    pools = json.loads(agent_sandbox("pool", "list", "--context", ".", "--json").stdout)["pools"]
    session = json.loads(
        agent_sandbox("session", "create", "--context", ".", "--pool", "test-oci", "--json").stdout
    )["session"]
    shown = agent_sandbox("session", "show", session, "--context", ".", "--json")
    closed = agent_sandbox("session", "close", session, "--context", ".")

    assert {"test-oci", "test-gvisor"} <= {pool["pool"] for pool in pools}
    assert json.loads(shown.stdout)["record"]["node"] not in (None, "", "kubernetes")
    assert closed.returncode == 0, closed.stderr


@pytest.mark.parametrize("words", [("--credential", "x"), ("--ca", "x")])
def test_a_context_beside_what_it_brings_is_refused(words: tuple[str, ...]) -> None:
    """One of the two is not meant."""
    done = agent_sandbox("pool", "list", "--context", ".", *words)

    assert done.returncode == 125
    assert "name none beside it" in done.stderr
