"""What `.ci/services` starts, and what it says where it can't: on a copy of it, with a tool that only notes its calls."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = (
    "bash",
    "cat",
    "cp",
    "dirname",
    "env",
    "mktemp",
    "realpath",
    "rm",
    "sh",
    "tail",
    "timeout",
    "touch",
)
TOOL = """#!/bin/sh
echo "$1" >> "$(dirname "$0")/calls"
case $1 in
    status) [ -e "$(dirname "$0")/kubeconfig" ] ;;
    docker) touch "$(dirname "$0")/engine" ;;
    up) [ ! -e "$(dirname "$0")/broken" ] || { echo "no room"; exit 1; }
        touch "$(dirname "$0")/kubeconfig" ;;
    kubeconfig) echo "$(dirname "$0")/kubeconfig" ;;
esac
"""


class Machine(NamedTuple):
    """A machine with some programs."""

    folder: Path

    def has(self, program: str, does: str = "exit 0") -> None:
        """Put a program in its PATH."""
        path = self.folder / "bin" / program
        path.write_text(f"#!/bin/sh\n{does}\n")
        path.chmod(0o755)

    def has_tool(self) -> Path:
        """Put a cluster tool beside the repository; return its folder."""
        place = self.folder / "beside" / "devcluster"
        place.mkdir(parents=True)
        (place / "devcluster").write_text(TOOL)
        (place / "devcluster").chmod(0o755)
        return place

    def start(self, what: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Call the script."""
        return subprocess.run(
            [self.folder / "repo" / ".ci" / "services", what],
            env={**environ, "PATH": str(self.folder / "bin")},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

    def told(self, what: str, **environ: str) -> dict[str, str]:
        """Call it, let a shell take its words, and return the environment after it."""
        said = self.start(what, **environ)
        assert said.returncode == 0, said.stderr
        return words(said.stdout, **environ)


def words(said: str, **environ: str) -> dict[str, str]:
    """Let a shell take what the script wrote; return the environment after it."""
    environ["PATH"] = os.defpath
    shell = ["bash", "-c", f"{said}\nenv"]
    shown = subprocess.run(shell, env=environ, capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in shown.stdout.splitlines())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """One of root's, with Go and a Docker command whose engine does not run."""
    place = tmp_path / "repo" / ".ci"
    place.mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "services", place)
    (tmp_path / "bin").mkdir()
    for name in NEEDED:  # and no other: this machine's own Go and Docker are not its
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    programs = tmp_path / "repo" / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "nats-server").touch()
    made = Machine(tmp_path)
    made.has("docker", "exit 1")
    made.has("go")
    made.has("id", "echo 0")
    return made


def test_an_engine_that_answers_is_taken_and_not_ended(machine: Machine) -> None:
    """No tool is needed for it."""
    machine.has("docker")

    told = machine.told("engine")

    assert told["TESTCONTAINERS_RYUK_DISABLED"] == "true"
    assert "SERVICES_STARTED" not in told


@pytest.mark.parametrize("what", ["engine", "cluster"])
def test_a_machine_without_a_tool_is_told_of(machine: Machine, what: str) -> None:
    """Whoever reads the run knows why tests were left out."""
    ended = machine.start(what)

    assert ended.returncode == 3
    assert "no cluster tool that could start it" in ended.stderr


def test_an_ordinary_user_is_told_that_the_tool_wants_root(machine: Machine) -> None:
    """It is not even tried."""
    place = machine.has_tool()
    machine.has("id", "echo 1000")

    ended = machine.start("cluster")

    assert (ended.returncode, "wants root" in ended.stderr) == (3, True)
    assert not (place / "calls").exists()


ENGINE = """case $1 in
    info) [ -e "$(dirname "$0")/../beside/devcluster/engine" ] ;;
    run) {run} ;;
esac"""


@pytest.mark.parametrize(("run", "code"), [("exit 0", 0), ("echo forbidden; exit 1", 3)])
def test_an_engine_is_started_and_kept_where_it_runs_containers(
    machine: Machine, run: str, code: int
) -> None:
    """One that can't would fail all tests that use it: without it they say that there is none."""
    machine.has_tool()
    machine.has("docker", ENGINE.format(run=run))
    with subprocess.Popen(["sleep", "60"]) as running:
        (machine.folder / "pid").write_text(str(running.pid))

        ended = machine.start("engine", ENGINE_PID=str(machine.folder / "pid"))

        assert ended.returncode == code
        if code:
            assert "it was started and runs no container: " in ended.stderr
            assert "forbidden" in ended.stderr
            assert "export SERVICES_STARTED=''" in ended.stdout.splitlines()  # ended already
        else:
            assert running.poll() is None
            machine.start("stop", SERVICES_STARTED=f" engine:{running.pid}")
        assert running.wait(5) == -signal.SIGTERM


def test_a_cluster_is_started_told_of_and_ended(machine: Machine) -> None:
    """With what loads images and does faults."""
    place = machine.has_tool()
    machine.has("docker")

    told = machine.told("cluster")
    ended = machine.start("stop", **told)

    assert told["KUBECONFIG"] == str(place / "kubeconfig")
    assert told["AGENT_SANDBOX_FAULTS"] == str(place / "devcluster")
    assert told["AGENT_SANDBOX_LOAD"] == f"{place / 'devcluster'} load"
    assert ended.returncode == 0
    calls = (place / "calls").read_text().split()
    assert calls == ["base-image", "status", "up", "kubeconfig", "down"]


def test_a_cluster_that_is_up_already_is_left_up(machine: Machine) -> None:
    """It is somebody else's."""
    place = machine.has_tool()
    machine.has("docker")
    (place / "kubeconfig").touch()

    told = machine.told("cluster")
    machine.start("stop", **told)

    assert told["KUBECONFIG"] == str(place / "kubeconfig")
    assert not {"up", "down"} & set((place / "calls").read_text().split())


def test_a_given_cluster_is_taken_as_it_is(machine: Machine) -> None:
    """Any that KUBECONFIG names."""
    place = machine.has_tool()

    assert machine.told("cluster", KUBECONFIG="/of/mine")["KUBECONFIG"] == "/of/mine"
    assert not (place / "calls").exists()


def test_a_cluster_that_does_not_come_up_is_told_of_and_taken_down(machine: Machine) -> None:
    """With the tool's last word; half a cluster would be in the way of the next run."""
    place = machine.has_tool()
    machine.has("docker")
    (place / "broken").touch()

    ended = machine.start("cluster")
    machine.start("stop", SERVICES_STARTED=words(ended.stdout)["SERVICES_STARTED"])

    assert ended.returncode == 3
    assert "no Kubernetes cluster: " in ended.stderr
    assert "ended with 1: no room" in ended.stderr
    assert words(ended.stdout)["SERVICES_WHY"].endswith("ended with 1: no room")
    assert (place / "calls").read_text().split()[-1] == "down"


def test_without_go_no_cluster_is_tried(machine: Machine) -> None:
    """The tool would fail after minutes."""
    place = machine.has_tool()
    (machine.folder / "bin" / "go").unlink()

    ended = machine.start("cluster")

    assert (ended.returncode, "with Go, which is not here" in ended.stderr) == (3, True)
    assert not (place / "calls").exists()
