"""What `.ci/run` makes of tests that fail, and of a machine that has no cluster: on a copy of it, with a `./dev` that does as told."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEV = """#!/bin/sh
echo "$*" >> calls
case "$*" in
    *--last-failed*) [ ! -e stays ] || { echo "FAILED t.py::test_0 - no"; exit 1; } ;;
    test) [ ! -e fails ] || { cat fails; exit 1; } ;;
    images*) [ ! -e no_images ] || { echo "no space left"; exit 1; } ;;
esac
"""
SERVICES = """#!/bin/sh
case $1 in
    cluster) [ ! -e no_cluster ] || { echo "export SERVICES_WHY='no Kubernetes cluster: no Go'"; exit 3; }
        echo 'export AGENT_SANDBOX_LOAD="tool load"' ;;
esac
"""
WITHOUT_A_CLUSTER = ["lint", "test", "test slow"]
WITH_A_CLUSTER = ["images --load tool load", "test kubernetes --durations=15"]

Ended = subprocess.CompletedProcess[str]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository that holds nothing else."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    for name, text in (("dev", DEV), (".ci/services", SERVICES)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run(
    repo: Path, *, failing: int | None = None, stays: bool = False, kubernetes: bool = True
) -> Ended:
    """Run all of it, with so many tests that fail; None: the run says nothing of failures, and all are well."""
    if failing is not None:
        lines = [f"FAILED t.py::test_{number} - no\n" for number in range(failing)]
        (repo / "fails").write_text("".join(lines) or "out of memory\n")
    if stays:
        (repo / "stays").touch()
    return subprocess.run(
        [repo / ".ci" / "run"],
        env={"PATH": os.defpath} | ({"CI_KUBERNETES": "1"} if kubernetes else {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def calls(repo: Path) -> list[str]:
    """Return what was asked of `./dev`, in its order."""
    return (repo / "calls").read_text().splitlines()


def test_a_run_without_failures_is_green_and_tries_nothing_again(repo: Path) -> None:
    """Nobody is told of doubts that there are not."""
    ended = run(repo)

    assert ended.returncode == 0, ended.stdout
    assert calls(repo) == WITHOUT_A_CLUSTER + WITH_A_CLUSTER
    assert "not run" not in ended.stdout
    assert "tried again" not in ended.stdout
    assert ended.stdout.splitlines()[-1] == "ci: all green"


def test_a_test_that_passes_at_the_second_try_is_named_and_stops_nothing(repo: Path) -> None:
    """It is a fault to be found, so the end of the run says its name."""
    ended = run(repo, failing=1)

    assert ended.returncode == 0, ended.stdout
    assert calls(repo)[2] == "test --last-failed --last-failed-no-failures none"
    told = ended.stdout[ended.stdout.index("ci: passed only when tried again") :]
    assert "FAILED t.py::test_0 - no" in told


def test_a_test_that_fails_twice_stops_the_change(repo: Path) -> None:
    """And the rest is still run: one run tells all."""
    ended = run(repo, failing=1, stays=True)

    assert ended.returncode == 1
    assert calls(repo)[-1] == WITH_A_CLUSTER[-1]
    assert "ci: failed: dev test" in ended.stdout


@pytest.mark.parametrize("failing", [0, 4])
def test_many_failures_and_a_run_that_names_none_are_no_accident(repo: Path, failing: int) -> None:
    """They are not tried again."""
    ended = run(repo, failing=failing)

    assert ended.returncode == 1
    assert not [call for call in calls(repo) if "--last-failed" in call]


def test_a_machine_without_a_cluster_is_told_of_and_stops_nothing(repo: Path) -> None:
    """With the reason, at the end of the run: nobody takes tests for passed that did not run."""
    (repo / "no_cluster").touch()

    ended = run(repo)

    assert ended.returncode == 0
    assert calls(repo) == WITHOUT_A_CLUSTER
    said = "ci: not run: tests on a Kubernetes cluster: no Kubernetes cluster: no Go"
    assert ended.stdout.splitlines()[-2:] == [said, "ci: all green"]


def test_tests_on_a_cluster_that_nobody_asked_for_are_told_of(repo: Path) -> None:
    """They are no part of what must be green yet."""
    ended = run(repo, kubernetes=False)

    assert ended.returncode == 0
    assert calls(repo) == WITHOUT_A_CLUSTER
    said = "ci: not run: tests on a Kubernetes cluster: not asked for (CI_KUBERNETES=1)"
    assert ended.stdout.splitlines()[-2:] == [said, "ci: all green"]


def test_images_that_can_not_be_made_stop_the_change(repo: Path) -> None:
    """Tests of the images that are on the nodes from before would say nothing of it."""
    (repo / "no_images").touch()

    ended = run(repo)

    assert ended.returncode == 1
    assert calls(repo) == [*WITHOUT_A_CLUSTER, WITH_A_CLUSTER[0]]
    assert "no space left" in ended.stdout
    assert "tests on a Kubernetes cluster: its images could not be made" in ended.stdout
