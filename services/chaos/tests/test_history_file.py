"""The history survives whoever writes it, and can be judged from its file alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.adapters.history_file import HistoryFile, read_history, read_rows
from chaos.core.rows import of_line, to_line
from chaos.core.verdict import judge
from chaos.testing.made import Made

WRITER = """
import sys
from pathlib import Path
from chaos.adapters.history_file import HistoryFile
from chaos.core.rows import Phase
with HistoryFile(Path(sys.argv[1])) as notes:
    for number in range(10**9):
        notes.write(Phase(time=notes.now(), name=str(number)))
        if number == 1000:
            print("far enough", flush=True)
"""


def test_every_row_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """And the verdict over the file is that over the rows."""
    made = Made()
    made.turn()
    made.lose_owner()
    made.turn()
    made.close()
    with HistoryFile(tmp_path / "history.jsonl") as notes:
        for row in made.rows:
            notes.write(row)

    rows, is_torn = read_rows(tmp_path / "history.jsonl")

    assert rows == made.rows
    assert not is_torn
    assert judge(read_history(tmp_path / "history.jsonl")) == judge(made.history())


def test_what_a_killed_writer_has_written_is_there(tmp_path: Path) -> None:
    """All rows before the kill, in order, none between lost."""
    path = tmp_path / "history.jsonl"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "far enough\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=10)

    rows, _ = read_rows(path)

    assert len(rows) > 1000
    assert [getattr(row, "name", "") for row in rows] == [
        str(number) for number in range(len(rows))
    ]


def test_a_torn_last_line_is_left_out_and_makes_the_verdict_unknown(tmp_path: Path) -> None:
    """Whoever wrote it died in the middle of it."""
    made = Made()
    made.turn()
    made.close()
    path = tmp_path / "history.jsonl"
    text = b"".join(map(to_line, made.rows))
    for cut in (1, 7, len(to_line(made.rows[-1])) - 1):
        path.write_bytes(text[:-cut])
        history = read_history(path)
        assert history.is_torn
        assert judge(history).verdict == "unknown"


def test_a_line_that_is_damaged_in_the_middle_is_named(tmp_path: Path) -> None:
    """A history with a hole is no history."""
    made = Made()
    made.turn()
    lines = [to_line(row) for row in made.rows]
    lines[2] = b'{"row": "op", "ti\n'
    (tmp_path / "h").write_bytes(b"".join(lines))

    with pytest.raises(ValueError, match="line 3"):
        read_rows(tmp_path / "h")


def test_a_history_is_never_overwritten(tmp_path: Path) -> None:
    """The raw data of a run may be all that is left of it."""
    (tmp_path / "h").touch()

    with pytest.raises(FileExistsError):
        HistoryFile(tmp_path / "h")


def test_a_row_says_what_it_is() -> None:
    """Programs of others can read it: one JSON object a line, with its kind."""
    made = Made()
    line = to_line(made.rows[0])

    assert line.startswith(b'{"row":"header"')
    assert line.endswith(b"}\n")
    assert of_line(line) == made.rows[0]
