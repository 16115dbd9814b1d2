"""A run that is kept for others: small, whole, and judged again to the same verdict."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from chaos.__main__ import main
from chaos.adapters.history_file import HistoryFile, read_history
from chaos.app import judge_folder
from chaos.testing.made import Made


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run in which a session lost its owner and went on."""
    made = Made()
    made.turn()
    op = made.invoke()
    made.lose_owner()
    made.work(op)
    made.finish(op)
    made.close()
    folder = tmp_path / "run"
    folder.mkdir()
    with HistoryFile(folder / "history.jsonl") as notes:
        for row in made.rows:
            notes.write(row)
    return folder


def test_what_is_kept_is_judged_to_the_same_figures(run: Path, tmp_path: Path) -> None:
    """From the compressed history alone."""
    kept = tmp_path / "kept"

    assert main(["keep", str(run), str(kept)]) == 0

    assert judge_folder(kept) == judge_folder(run)
    page = (kept / "README.md").read_text()
    assert "Verdict: **true**" in page
    pictures = sorted(path.name for path in kept.glob("*.svg"))
    assert pictures == ["parts.svg", "pool.svg", "queue.svg", "recovery.svg", "sessions.svg", "turns.svg", "waiting.svg"]  # fmt: skip
    for name in pictures:
        assert f"({name})" in page
        ElementTree.parse(kept / name)


def test_a_history_that_is_too_large_is_left_out_and_the_page_says_so(
    run: Path, tmp_path: Path
) -> None:
    """With what it takes to know it again."""
    kept = tmp_path / "kept"

    main(["keep", str(run), str(kept), "--history-mb", "0"])

    assert not list(kept.glob("history*"))
    assert "left out" in (kept / "README.md").read_text()


def test_nothing_that_is_there_is_written_over(run: Path, tmp_path: Path) -> None:
    """A wrong word must not cost anybody a folder."""
    (tmp_path / "mine").mkdir()

    assert main(["keep", str(run), str(tmp_path / "mine")]) == 125
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_compressed_history_that_is_damaged_is_no_history(run: Path, tmp_path: Path) -> None:
    """It says so in words."""
    kept = tmp_path / "kept"
    main(["keep", str(run), str(kept)])
    packed = kept / "history.jsonl.xz"
    packed.write_bytes(packed.read_bytes()[:-40])

    with pytest.raises(ValueError, match="damaged"):
        read_history(packed)


def test_of_faults_done_alone_the_table_is_kept(tmp_path: Path) -> None:
    """Not the thirty runs."""
    folder = tmp_path / "faults"
    (folder / "nodes-killed").mkdir(parents=True)
    for name in ("faults.md", "faults.json"):
        (folder / name).write_text(name)

    assert main(["keep", str(folder), str(tmp_path / "kept")]) == 0
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "faults.json",
        "faults.md",
    ]
