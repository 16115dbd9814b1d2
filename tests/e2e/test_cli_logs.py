"""`logs`: what a task wrote, for whoever comes later or from elsewhere."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable

import pytest
from tests.e2e.conftest import Cli

from agent_sandbox.embedded.folder import Folder

SCRIPT = "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done; echo beside >&2; exit 3"


def start(cli: Cli) -> str:
    """Start a task that nobody waits for; return its id."""
    return cli("run", "--detach", "--shell", SCRIPT).stdout.strip()


def test_a_task_is_followed_to_its_end(
    cli: Cli, start_cli: Callable[..., subprocess.Popen[str]]
) -> None:
    """While it runs; its exit code is its own, that of `logs` says that they were shown."""
    follower = start_cli("logs", "-f", start(cli))
    stdout, stderr = follower.communicate(timeout=30)

    assert stdout == "1\n2\n3\n4\n5\n"
    assert stderr.startswith("beside\n")
    assert "exit code 3" in stderr
    assert follower.returncode == 0


@pytest.mark.parametrize("way", ["nats", "gateway"])
def test_what_a_task_wrote_is_shown_later_from_any_event_on(
    cli: Cli, embedded: Folder, way: str
) -> None:
    """Straight or through a gateway: the same."""
    task = start(cli)
    where = ["--server", embedded.read().gateways[0]] if way == "gateway" else []
    assert cli("logs", "-f", *where, task).stdout == "1\n2\n3\n4\n5\n"
    lines = [json.loads(line) for line in cli("logs", "--json", *where, task).stdout.splitlines()]
    assert [line["event"] for line in lines] == ["started", *["output"] * 6, "result"]
    after = next(line["id"] for line in lines if line.get("text") == "2\n")

    assert cli("logs", *where, "--after", after, task).stdout == "3\n4\n5\n"


def test_of_a_task_that_nobody_knows_there_is_nothing_to_show(cli: Cli) -> None:
    """It is said, in a moment; a position that is none as well."""
    unknown = cli("logs", str(uuid.uuid4()))
    assert (unknown.returncode, unknown.stdout) == (125, "")
    assert "nothing is known" in unknown.stderr
    wrong = cli("logs", "--after", "rubbish", str(uuid.uuid4()))
    assert wrong.returncode == 125
    assert "after: no position" in wrong.stderr


@pytest.mark.parametrize("way", ["nats", "gateway"])
def test_what_is_followed_and_not_there_is_said(
    cli: Cli, embedded: Folder, start_cli: Callable[..., subprocess.Popen[str]], way: str
) -> None:
    """Of a known session it is an error; else it may wait for its first worker, and whoever waits for it is told so."""
    where = ["--server", embedded.read().gateways[0]] if way == "gateway" else []
    session, unknown = cli("session", "create").stdout.strip(), str(uuid.uuid4())
    follower = start_cli("logs", "-f", *where, unknown)
    for follow in (["-f"], []):
        wrong = cli("logs", *follow, *where, "--session", session, unknown)
        assert wrong.returncode == 125
        assert f"session {session} has no task {unknown}" in wrong.stderr
    assert follower.stderr is not None
    assert "nothing is known" in follower.stderr.readline()
    assert follower.poll() is None
    cli("session", "close", session)
