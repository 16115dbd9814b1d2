"""The command line without a cluster: help, wrong usage, and one clear line where there is nothing to talk to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent_sandbox.cli.output import ago, page_json, plain, print_facts, print_table
from agent_sandbox.cli.root import root

PROGRAM = Path(sys.executable).parent / "agent-sandbox"


def test_the_exit_codes_are_documented() -> None:
    """In the help of the program itself."""
    text = " ".join(CliRunner().invoke(root, ["--help"]).output.split())

    for code in (
        "124 timeout",
        "125 fault",
        "126 or 127",
        "130",
        "137 out of memory",
        "2 wrong usage",
    ):
        assert code in text


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["run", "--shell", "a", "--python", "b"],
        ["run", "--class", "recovery", "--", "a"],
        ["run", "--timeout", "0", "--", "a"],
        ["session", "exec", "some-session"],
        ["session", "python", "some-session"],
        ["session", "list", "--in-state", "asleep"],
        ["up", "--nodes", "0"],
        ["up", "--isolation", "iron"],
    ],
)
def test_wrong_usage_ends_with_2(words: list[str]) -> None:
    """Before anything is looked for."""
    assert CliRunner().invoke(root, words).exit_code == 2


@pytest.mark.parametrize(
    "words", [("run", "--", "true"), ("status",), ("down",), ("session", "list")]
)
def test_without_a_cluster_there_is_one_line_that_says_what_to_do(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """No traceback, exit code 125; with `--json` the error is an object on stdout."""
    named = [*words[:1], *words[1:2], "--json", "--state", str(tmp_path)]
    if words[0] in ("run", "status", "down"):
        named = [words[0], "--json", "--state", str(tmp_path), *words[1:]]
    done = subprocess.run(
        [PROGRAM, *named], capture_output=True, text=True, timeout=30, check=False
    )

    assert done.returncode == 125
    assert done.stderr.count("\n") == 1
    assert "start one with `agent-sandbox up`" in done.stderr
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["definite"]) == ("not_found", True)


def test_a_table_shows_brackets_and_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reasons name places in brackets, which are no markup; long ones wrap."""
    monkeypatch.setenv("COLUMNS", "40")

    print_table("some [title]", ("a", "why not"), [("x", "refused [check.py:25 > root.py:3] " * 3)])

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "some [title]"
    assert "".join(line[3:].strip() for line in lines[2:]).count("[check.py:25") == 3
    assert max(len(line) for line in lines) <= 40


@pytest.mark.parametrize("columns", ["64", ""])
def test_ids_in_a_table_stay_whole(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are there to be copied; in a pipe (no width known) each row is one line."""
    monkeypatch.setenv("COLUMNS", columns) if columns else monkeypatch.delenv("COLUMNS", False)
    name = "00cb3ce4-0cce-468e-84b1-2333ec82ba80"

    print_table("", ("number", "task", "why"), [(1, name, "a long reason " * 9)])

    lines = capsys.readouterr().out.splitlines()
    assert name in lines[1]
    assert columns or len(lines) == 2


def test_a_terminal_too_narrow_for_a_table_shows_a_block_for_each_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids whole, on a line of their own where they need one; what is empty is left out."""
    monkeypatch.setenv("COLUMNS", "40")
    name = "00cb3ce4-0cce-468e-84b1-2333ec82ba80"
    rows = [(name, "running", "", "w" * 20), (name[::-1], "idle", "2", "")]

    print_table("", ("session", "state", "lost", "worker"), rows)

    blocks = capsys.readouterr().out.split("\n\n")
    assert [line.rstrip() for line in blocks[0].splitlines()] == [
        "session",
        name,
        "state    running",
        "worker   " + "w" * 20,
    ]
    assert blocks[1].splitlines()[2:] == ["state    idle", "lost     2"]


def test_spare_columns_go_before_a_table_becomes_blocks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after another, as few as must; a block has them again."""
    name = "00cb3ce4-0cce-468e-84b1-2333ec82ba80"

    def heads(columns: int) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        row = (name, "w" * 12, "idle", "k" * 10)
        print_table("", ("session", "worker", "state", "kind"), [row], spare=("worker", "kind"))
        return " ".join(capsys.readouterr().out.splitlines()[0].split())

    assert heads(80) == "session worker state kind"
    assert heads(60) == "session state kind"
    assert heads(50) == "session state"
    assert heads(40) == "session"


def test_a_column_without_a_head_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `doctor` has one for its verdicts."""
    monkeypatch.setenv("COLUMNS", "40")

    print_table("", ("", "what"), [("ok", "ports"), ("fail", "disk")])

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["what"], ["ok", "ports"], ["fail", "disk"]]


def test_long_facts_wrap_beside_their_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between words."""
    monkeypatch.setenv("COLUMNS", "20")

    print_facts({"why": "one two three four five", "empty": ""})

    assert capsys.readouterr().out.splitlines() == ["why  one two three", "     four five"]


def test_a_word_wider_than_the_terminal_is_cut_in_a_sentence_but_an_id_is_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What strangers sent may be quoted in a reason; an id is there to be copied."""
    monkeypatch.setenv("COLUMNS", "20")

    print_facts({"why": "got " + "w" * 30, "id": "i" * 30})

    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if "i" * 9 not in line) <= 20
    assert "i" * 30 in lines


def test_strangers_words_do_not_move_the_cursor() -> None:
    """Reasons and bodies may hold what a terminal would obey."""
    assert plain("a\x1b[2J\r\nb\tc\u202e") == "a\\x1b[2J\\r\nb\tc\\u202e"


def test_a_page_without_rows_says_so_in_json() -> None:
    """A reader of `letters` finds a list, not nothing."""
    assert page_json("letters", (), None) == {"letters": ()}
    assert page_json("letters", (1,), 7) == {"letters": (1,), "next": 7}


def test_an_empty_listing_says_that_it_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, and no heads of columns under which nothing stands."""
    print_table("", ("number", "task"), [], empty="no dead letters")

    assert capsys.readouterr() == ("", "agent-sandbox: no dead letters\n")


def test_ages_are_short() -> None:
    """The largest unit that fits; nothing for a time that is not known."""
    assert [ago(then, 100_000.0) for then in (99_990_000, 99_000_000, 50_000_000, 0)] == [
        "10 s",
        "16.7 min",
        "13.9 h",
        "",
    ]
