"""`agent-sandbox session`: what is kept from task to task, and how one is looked at and ended."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Finished = subprocess.CompletedProcess[str]
Cli = Callable[..., Finished]


@pytest.fixture
def session(cli: Cli) -> Iterator[str]:
    """An open session's id."""
    made = cli("session", "create")
    assert made.returncode == 0, made.stderr
    yield made.stdout.strip()
    cli("session", "close", made.stdout.strip())


def test_the_interpreter_and_files_are_kept_from_task_to_task(cli: Cli, session: str) -> None:
    """A variable of one task is there in the next; so is a file, for programs as well."""
    cli("session", "python", session, "-c", "x = 41; open('note.txt', 'w').write('kept')")

    again = cli("session", "python", session, "-c", "x + 1")
    program = cli("session", "exec", session, "--", "cat", "note.txt")

    assert (again.stdout, again.returncode) == ("42\n", 0)
    assert (program.stdout, program.returncode) == ("kept", 0)


def test_files_are_written_listed_read_and_removed(cli: Cli, session: str, tmp_path: Path) -> None:
    """The four file commands, on binary content."""
    local, back = tmp_path / "data.bin", tmp_path / "back.bin"
    local.write_bytes(bytes(range(256)) * 4)

    wrote = cli("session", "write", session, f"{local}:in/data.bin")
    listed = cli("session", "ls", session, "in")
    read = cli("session", "read", session, "in/data.bin", "-o", str(back))
    removed = cli("session", "rm", session, "in", "-r")
    gone = cli("session", "read", session, "in/data.bin")

    assert (wrote.stdout, wrote.returncode) == ("in/data.bin\n", 0)
    assert listed.stdout.split()[-2:] == ["1024", "data.bin"]
    assert read.returncode == removed.returncode == 0
    assert back.read_bytes() == local.read_bytes()
    assert gone.returncode == 125
    assert gone.stderr.startswith("agent-sandbox: task_failed: ")


def test_a_folder_is_copied_in_and_out(cli: Cli, session: str, tmp_path: Path) -> None:
    """A link that leads out is left out and said; a folder that holds something is not touched."""
    local, back = tmp_path / "local", tmp_path / "back"
    (local / "deep").mkdir(parents=True)
    (local / "deep" / "file").write_text("content")
    (local / "away").symlink_to("/etc/passwd")

    up = cli("session", "upload", session, str(local), "in")
    down = cli("session", "download", session, "in", str(back))
    again = cli("session", "download", session, "in", str(back))
    single = cli("session", "download", session, "in/deep/file", str(tmp_path / "single"))
    wrong = cli("session", "upload", session, str(local / "deep" / "file"))

    assert (up.stdout, up.returncode) == ("in\n", 0)
    assert (down.stdout, down.returncode) == (f"{back}\n", 0)
    assert "away" in down.stderr
    assert [str(path.relative_to(back)) for path in sorted(back.rglob("*"))] == [
        "deep",
        "deep/file",
    ]
    assert "not empty" in again.stderr
    assert (tmp_path / "single" / "file").read_text() == "content", single.stderr
    assert "`session put`" in wrong.stderr


@pytest.mark.parametrize(
    "words", [["exec", "--", "true"], ["python", "-c", "1"], ["ls"], ["read", "file"], ["close"]]
)
def test_a_session_that_is_not_there_is_said_at_once(cli: Cli, words: list[str]) -> None:
    """Its inbox would take a task, which nobody reads before its deadline."""
    done = cli("session", words[0], "no-such-session", *words[1:])

    assert done.returncode == 125
    assert done.stderr.startswith("agent-sandbox: not_found: no session no-such-session")


def test_a_session_is_shown_and_listed(cli: Cli, session: str) -> None:
    """Its state and the isolation that it really has; and it stands in the list of its state."""
    cli("session", "exec", session, "--", "true")

    shown = json.loads(cli("session", "show", session, "--json").stdout)
    listed = json.loads(cli("session", "list", "--in-state", "running", "--json").stdout)

    assert shown["record"]["state"] == "running"
    assert shown["record"]["tasks_done"] == 2
    assert shown["isolation"] != ""
    assert session in [row["session"] for row in listed["sessions"]]
    assert session in cli("session", "list").stdout
    assert "tasks done  2" in cli("session", "show", session).stdout


def test_the_tasks_of_a_session_are_listed(cli: Cli, session: str) -> None:
    """Oldest first, the one that founded it included; page by page, and by state."""
    cli("session", "python", session, "-c", "1 / 0")

    whole = json.loads(cli("task", "list", session, "--json").stdout)
    first = json.loads(cli("task", "list", session, "--limit", "1", "--json").stdout)
    rest = json.loads(
        cli("task", "list", session, "--after", first["next"], "--json").stdout,
    )
    nothing = cli("task", "list", session, "--in-state", "waiting")
    unknown = cli("task", "list", "no-such-session")

    assert [(row["kind"], row["status"]) for row in whole["tasks"]] == [
        ("open", "ok"),
        ("python", "failed"),
    ]
    assert whole["tasks"][0]["task"] == session
    assert first["tasks"] + rest["tasks"] == whole["tasks"]
    assert "next" not in rest
    assert session in cli("task", "list", session).stdout
    assert (nothing.stdout, nothing.stderr) == ("", "agent-sandbox: no such tasks\n")
    assert unknown.returncode == 125
    assert unknown.stderr.startswith("agent-sandbox: not_found: no session no-such-session")


def test_a_closed_session_takes_nothing_more(cli: Cli, session: str) -> None:
    """Closing ends it, closing again does no harm, and a task for it is rejected with the reason."""
    first, second = cli("session", "close", session), cli("session", "close", session)
    refused = cli("session", "exec", session, "--", "true")

    assert (first.stdout, first.returncode) == ("closed\n", 0)
    assert (second.stdout, second.returncode) == ("had ended before\n", 0)
    assert refused.returncode == 125
    assert "rejected" in refused.stderr
    assert "ended" in refused.stderr
