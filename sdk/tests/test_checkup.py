"""`doctor` on this machine: as root and as an ordinary user, with what can be missing really missing."""

from __future__ import annotations

import collections
import importlib.metadata
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_sandbox.checkup.facts import Facts, look
from agent_sandbox.checkup.judge import Report, judge
from agent_sandbox.checkup.verdict import Check
from agent_sandbox.embedded.folder import Folder
from shared.cluster.ports import find_free_ports
from shared.machine import MachineView
from shared.testing.ordinary import as_ordinary_user, environment, python_for_everybody

PROGRAM = Path(sys.executable).parent / "agent-sandbox"
HERE = {"process": "", "landlock": "", "namespace": "", "gvisor": "no driver"}
GOOD = Facts(
    system="Linux",
    kernel="6.1",
    python="3.11.2",
    server="v2.15.1",
    machine=MachineView(isolation=HERE, controllers=("memory", "pids", "cpu"), missing={}),
    has_landlock=True,
    state="/state",
    disk_free_bytes=99 << 30,
    memory_free_bytes=9 << 30,
    cores=2,
    files_soft=1024,
    files_hard=65_536,
)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may pass, and an ordinary one may write."""
    with tempfile.TemporaryDirectory(prefix="agent-sandbox-doctor-") as name:
        Path(name).chmod(0o755)
        if os.geteuid() == 0:
            os.chown(name, 1000, 1000)
        yield Path(name)


def doctor(place: Path, *words: str, before: str = "") -> tuple[Report, int]:
    """Run the command in a shell, after other shell words."""
    command = f'{before} exec "$0" doctor --json --state "$1" "${{@:2}}"'
    done = subprocess.run(
        ["bash", "-c", command, PROGRAM, str(place / "state"), *words],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    return msgspec.json.decode(done.stdout, type=Report), done.returncode


def check(report: Report, name: str) -> Check:
    """Return one check."""
    return next(each for each in report.checks if each.name == name)


def test_a_machine_is_looked_at_and_left_as_it_was(place: Path) -> None:
    """Whoever runs this: each isolation class with the reason why not, and no trace of the trial."""
    before = sorted(place.iterdir())

    report, code = doctor(place)

    isolation = check(report, "isolation")
    assert set(isolation.details) == {"process", "landlock", "namespace", "oci", "gvisor", "kata"}
    assert isolation.details["process"] == ""
    assert check(report, "nats-server").found.startswith("v2.")
    assert check(report, "state folder").found.endswith("no cluster yet")
    assert code == (1 if report.verdict == "fail" else 0)
    assert sorted(place.iterdir()) == before


def test_an_ordinary_user_is_told_the_same_way(place: Path) -> None:
    """What a user without rights gets, and what would give more."""
    python = python_for_everybody()
    if python is None:
        pytest.skip("no interpreter of this version that an ordinary user may run")
    program = "from agent_sandbox.cli import main; main()"

    done = subprocess.run(
        [python, "-c", program, "doctor", "--json", "--state", str(place / "state")],
        env=environment(),
        cwd="/",
        capture_output=True,
        timeout=60,
        check=False,
        **as_ordinary_user(),
    )

    report = msgspec.json.decode(done.stdout, type=Report)
    assert check(report, "state folder").verdict == "ok"
    isolation = check(report, "isolation")
    assert isolation.details, isolation.found
    assert (isolation.verdict == "ok") == (isolation.details["namespace"] == "")
    assert [each.name for each in report.checks if each.verdict != "ok" and not each.do] == []


def test_a_port_that_is_taken_is_named(place: Path) -> None:
    """With what to do about it, and exit code 1."""
    base = find_free_ports(3)[0].edge
    with socket.create_server(("127.0.0.1", base + 5)):
        report, code = doctor(place, "--port", str(base))

    ports = check(report, "ports")
    assert (ports.verdict, code) == ("fail", 1)
    assert f"{base + 5} is in use" in ports.found
    assert "up --port" in ports.do


def test_too_few_open_files_are_told(place: Path) -> None:
    """By the hard limit: the soft one is raised by `up` itself."""
    few, code = doctor(place, before="ulimit -n 128;")
    soft, _ = doctor(place, before="ulimit -Sn 128;")

    assert check(few, "open files").verdict == "fail"
    assert "nofile" in check(few, "open files").do
    assert code == 1
    assert check(soft, "open files").verdict != "fail"


def test_the_supervisor_uses_the_whole_hard_limit_of_open_files() -> None:
    """And everything that it starts inherits it."""
    code = (
        "import resource; from agent_sandbox.embedded.__main__ import raise_open_files as r; r();"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    command = 'ulimit -Sn 100; ulimit -Hn 2000; exec "$0" -c "$1"'

    done = subprocess.run(
        ["bash", "-c", command, sys.executable, code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.strip() == "2000"


def test_a_disk_that_is_almost_full_and_a_missing_server_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server program in the environment, nor on the PATH."""
    usage: Any = collections.namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(9 << 30, 0, 100 << 20))
    monkeypatch.setattr(importlib.metadata, "files", lambda _: [])
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    report = judge(look(Folder(tmp_path / "state"), None))

    assert check(report, "disk").verdict == check(report, "nats-server").verdict == "fail"
    assert "100 MiB free" in check(report, "disk").found
    assert "--state" in check(report, "disk").do
    assert "pip install" in check(report, "nats-server").do
    assert report.verdict == "fail"


def test_a_folder_of_something_else_is_not_taken(tmp_path: Path) -> None:
    """It is said what lies in it; nothing is touched."""
    (tmp_path / "thesis.txt").write_text("mine")

    state = check(judge(look(Folder(tmp_path), None)), "state folder")

    assert state.verdict == "fail"
    assert "thesis.txt" in state.found
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_good_machine_has_nothing_to_do() -> None:
    """Not one remark."""
    report = judge(GOOD)

    assert report.verdict == "ok"
    assert [each.do for each in report.checks if each.do] == []


def machine(**changes: Any) -> MachineView:
    """Return what a good node finds, changed."""
    assert GOOD.machine is not None
    return msgspec.structs.replace(GOOD.machine, **changes)


NO_GROUPS = machine(controllers=(), missing={"memory": "read-only"})
NO_NAMESPACE = machine(isolation={**HERE, "namespace": "clone: Operation not permitted"})


@pytest.mark.parametrize(
    ("changes", "name", "verdict", "words"),
    [
        ({"system": "Darwin"}, "system", "fail", "needs Linux"),
        ({"services_missing": ("local_node",)}, "services", "fail", "agent-sandbox[embedded]"),
        ({"machine": None, "machine_error": "x"}, "isolation", "fail", "ask again"),
        ({"machine": NO_NAMESPACE}, "isolation", "warn", "run as root"),
        ({"machine": NO_NAMESPACE, "in_container": True}, "isolation", "warn", "--cap-add"),
        (
            {"machine": NO_NAMESPACE, "switches": {"user.max_user_namespaces": 0}},
            "isolation",
            "warn",
            "sysctl -w user.max_user_namespaces",
        ),
        (
            {
                "machine": machine(isolation={"process": "", "landlock": "no", "namespace": "no"}),
                "has_landlock": False,
            },
            "isolation",
            "fail",
            "5.13",
        ),
        (
            {"machine": NO_GROUPS},
            "cgroups",
            "warn",
            "Delegate=yes",
        ),
        (
            {"machine": NO_GROUPS, "is_root": True, "in_container": True},
            "cgroups",
            "warn",
            "--privileged",
        ),
        ({"ports_error": "no 12 free ports"}, "ports", "fail", "--port"),
        ({"disk_free_bytes": 1 << 30}, "disk", "warn", "large files"),
        ({"memory_free_bytes": 100 << 20}, "memory", "fail", "more"),
        ({"memory_free_bytes": 1 << 30}, "memory", "warn", "memory_mib"),
        ({"files_hard": 1024}, "open files", "warn", "nofile"),
        ({"processes_max": 100}, "processes", "fail", "--pids-limit"),
        ({"processes_max": 1000}, "processes", "warn", "TasksMax"),
        ({"cores": 1}, "cores", "warn", "two or more"),
    ],
)
def test_what_is_missing_comes_with_what_to_do(
    changes: dict[str, Any], name: str, verdict: str, words: str
) -> None:
    """The worst check is the verdict of the whole."""
    report = judge(msgspec.structs.replace(GOOD, **changes))

    found = check(report, name)
    assert (found.verdict, report.verdict) == (verdict, verdict)
    assert words in found.do
