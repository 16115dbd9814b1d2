"""`agent-sandbox run` and `task`, as a person meets them."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Finished = subprocess.CompletedProcess[str]
Cli = Callable[..., Finished]
Start = Callable[..., subprocess.Popen[str]]


def test_output_goes_where_the_program_wrote_it_and_its_exit_code_is_ours(cli: Cli) -> None:
    """stdout, stderr and exit code pass through untouched."""
    done = cli("run", "--shell", "echo out; echo err >&2; exit 7")

    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run", "--shell", "kill -9 $$"), 137, "killed by signal 9"),
        (("run", "--timeout", "0.5", "--", "sleep", "30"), 124, "longer than timeout_s"),
        (("run", "--", "no-such-program"), 127, "no such program"),
        (("run", "--", "/etc/passwd"), 126, "Permission denied"),
        (("run", "--pool", "nowhere", "--", "true"), 125, "not_found: no pool 'nowhere'"),
        (
            ("run", "--file", "/nonexistent", "--", "true"),
            125,
            "invalid_message: file /nonexistent",
        ),
    ],
)
def test_each_way_to_fail_has_its_exit_code_and_one_line(
    cli: Cli, words: tuple[str, ...], code: int, said: str
) -> None:
    """One line on stderr names what happened; never a traceback."""
    done = cli(*words)

    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_files_and_environment_go_along(cli: Cli, tmp_path: Path) -> None:
    """A local file lies in the workspace under the path that was said; a variable is set."""
    local = tmp_path / "greeting.txt"
    local.write_text("good morning")

    done = cli(
        *("run", "--file", f"{local}:in/word.txt", "--env", "NAME=Ada"),
        *("--shell", 'echo "$(cat in/word.txt), $NAME"'),
    )

    assert (done.stdout, done.returncode) == ("good morning, Ada\n", 0)


def test_python_comes_from_a_file_or_from_stdin(cli: Cli) -> None:
    """`--python -` reads stdin; the last expression is shown, as in a notebook."""
    done = cli("run", "--python", "-", stdin="x = 6\nx * 7\n")

    assert (done.stdout, done.returncode) == ("42\n", 0)


def test_json_is_one_object_with_everything(cli: Cli) -> None:
    """`--json` prints the result and nothing else; the exit code stays the program's."""
    done = cli("run", "--json", "--class", "batch", "--shell", "echo hello; exit 3")
    result = json.loads(done.stdout)

    assert done.returncode == 3
    assert (result["status"], result["reason"], result["exit_code"]) == ("failed", "exit_code", 3)
    assert result["stdout"]["text"] == "hello\n"
    assert 0 < result["tti_s"] < result["total_s"]


def test_an_error_is_json_too_when_json_was_asked_for(cli: Cli) -> None:
    """A program that reads our output finds the code there."""
    done = cli("run", "--json", "--pool", "nowhere", "--", "true")

    assert json.loads(done.stdout)["error"]["code"] == "not_found"
    assert done.returncode == 125


def test_wrong_usage_is_said_with_exit_code_2(cli: Cli) -> None:
    """Nothing to run, or two things: refused before anything is published."""
    assert cli("run").returncode == 2
    assert cli("run", "--shell", "true", "--", "true").returncode == 2
    assert cli("run", "--env", "novalue", "--", "true").returncode == 2


def test_ctrl_c_cancels_the_task(cli: Cli, start_cli: Start) -> None:
    """Exit code 130, and the task's stored result is `cancelled`: nothing runs on behind the user's back."""
    process = start_cli("run", "-v", "--shell", "echo started; exec sleep 60")
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"

    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    task = next(word for word in stderr.split() if word.count("-") == 4)

    assert process.returncode == 130
    assert "cancelling task" in stderr
    shown = json.loads(cli("task", "show", task, "--json").stdout)
    assert (shown["state"], shown["result"]["status"]) == ("ended", "cancelled")


def test_a_detached_task_can_be_shown_and_cancelled(cli: Cli) -> None:
    """`--detach` prints the id; `task show` and `task cancel` find it, with JSON of one shape whether it has ended or not."""
    task = cli("run", "--detach", "--", "sleep", "60").stdout.strip()
    while (before := json.loads(cli("task", "show", task, "--json").stdout)).get("error"):
        assert before["error"]["code"] == "not_found"  # it waits in its lane

    cancelled = cli("task", "cancel", task)
    shown = cli("task", "show", task)
    after = json.loads(cli("task", "show", task, "--json").stdout)

    assert (cancelled.stdout, cancelled.returncode) == ("cancelled (cancelled)\n", 0)
    assert before["state"] in ("accepted", "started")
    assert (after["state"], after["result"]["status"]) == ("ended", "cancelled")
    assert {before["task"], after["task"]} == {task}
    assert shown.stdout.startswith(f"task {task} cancelled")


def test_an_unknown_task_is_not_found(cli: Cli) -> None:
    """Neither a result nor a session of that id."""
    done = cli("task", "show", "00000000-0000-4000-8000-000000000000")

    assert done.returncode == 125
    assert done.stderr.startswith("agent-sandbox: not_found: no result and no session of task")


def test_a_cancel_of_what_nobody_knows_says_what_is_missing(cli: Cli) -> None:
    """It may wait in a lane, where only its pool leads to it."""
    done = cli("task", "cancel", "no-such-task-0001")

    assert (done.returncode, done.stdout) == (125, "unknown\n")
    assert "--pool" in done.stderr
    assert "--session" in done.stderr
