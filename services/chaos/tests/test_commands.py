"""The lab's commands, as people call them; those that run an experiment are in tests/chaos."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.__main__ import main
from chaos.adapters.history_file import HistoryFile
from chaos.core.rows import AnyRow
from chaos.nemesis import FAULTS
from chaos.testing.made import Made


def write(folder: Path, rows: list[AnyRow]) -> Path:
    """Write a history where a run would have."""
    folder.mkdir()
    with HistoryFile(folder / "history.jsonl") as notes:
        for row in rows:
            notes.write(row)
    return folder


@pytest.fixture
def made() -> Made:
    """A session that lost its owner and went on."""
    run = Made()
    run.turn()
    op = run.invoke()
    run.lose_owner()
    run.work(op)
    run.finish(op)
    return run


def test_a_history_is_judged_by_its_folder_alone_and_two_are_compared(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit codes tell the verdict: 0 true, 1 false, 3 unknown."""
    unknown = write(tmp_path / "unknown", list(made.rows))
    made.close()
    good = write(tmp_path / "good", list(made.rows))
    made.rows.insert(-1, made.rows[1])
    made.version("running", epoch=1)
    bad = write(tmp_path / "bad", list(made.rows))

    codes = [main(["judge", str(folder)]) for folder in (good, unknown, bad)]
    compared = main(["compare", str(good), str(bad)])
    shown = capsys.readouterr().out

    assert codes == [0, 3, 1]
    assert json.loads((good / "report.json").read_text())["figures"]["verdict"] == 1
    assert json.loads((bad / "report.json").read_text())["figures"]["zombie"] > 0
    assert (good / "report.html").read_text().startswith("<!doctype html>")
    assert compared == 0
    assert "now missed" in shown
    assert "zombie" in shown


def test_the_faults_are_listed_by_the_client_as_well() -> None:
    """`agent-sandbox chaos` hands its words over."""
    program = Path(sys.executable).parent / "agent-sandbox"
    listed = subprocess.run(
        [program, "chaos", "faults"], capture_output=True, text=True, timeout=50, check=True
    )

    assert {line.split()[0] for line in listed.stdout.splitlines() if line.strip()} >= set(FAULTS)


def test_another_word_is_no_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    """A typo names what there is."""
    with pytest.raises(SystemExit) as exited:
        main(["run", "nodes-kiled"])

    assert exited.value.code == 2
    assert "nodes-killed" in capsys.readouterr().err


def test_what_is_no_history_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never a traceback."""
    assert main(["judge", str(tmp_path)]) == 125
    assert "history.jsonl" in capsys.readouterr().err


def test_what_can_be_run_stands_on_the_page_of_commands() -> None:
    """The words of `chaos run` that name no single fault."""
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("| `chaos run ")]

    words = line.removeprefix("| `chaos run ").split(" ", 1)[0].split("\\|")
    assert words == ["headline", "quiet", "faults", "FAULT"]
