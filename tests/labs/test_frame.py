"""What all labs stand on: sides, needs, checks, and the table of both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from labs.comparing import BEGIN, END, rows, with_block
from labs.drawing import Line, over, pairs, picture
from labs.frame import CannotRun, Need, is_green, rounded, run_side

CHECK = """
from labs.frame import Need, checked
NEEDS = (Need("lost", "nothing is lost", at_most=0), Need("done", "work is done", at_least=3))
if __name__ == "__main__":
    checked(NEEDS, __file__)
"""
SIDE = """
from labs.frame import side
async def measure(say):
    say("at work")
    return {figures}
if __name__ == "__main__":
    side(measure)
"""


@pytest.mark.parametrize(
    ("told", "holds"),
    [(0, True), (2.5, True), (2.6, False), (-1, False), (None, False), (float("nan"), False), ("2", False)],
)  # fmt: skip
def test_a_need_holds_between_its_bounds(told: object, holds: bool) -> None:
    """Bounds are included; what was not told, or is no number, never holds."""
    assert Need("x", "why", at_least=0, at_most=2.5).holds({"x": told}) == holds


def test_a_check_without_needs_is_never_green() -> None:
    """It would be green on everything."""
    assert not is_green((), {"x": 1})


def test_figures_carry_three_digits() -> None:
    """In lists as well; words and counts stay as they are."""
    assert rounded({"a": 1234.5, "b": 0.0012345, "c": [1.23456, 7], "d": "w", "e": True}) == {
        "a": 1234.0, "b": 0.00123, "c": [1.23, 7], "d": "w", "e": True,
    }  # fmt: skip


def test_a_check_judges_the_answer_beside_it_or_the_file_that_is_named(tmp_path: Path) -> None:
    """Exit codes: 0 green, 1 red, 2 no such file, 125 no figures."""
    (tmp_path / "check.py").write_text(CHECK)
    (tmp_path / "answer.py").write_text(SIDE.format(figures={"lost": 0, "done": 3}))
    (tmp_path / "wall.py").write_text(SIDE.format(figures={"lost": 1, "done": 3}))
    (tmp_path / "broken.py").write_text("raise SystemExit(3)")

    def check(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "check.py", *words]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False
        )

    answer, wall = check(), check("wall.py")
    assert (answer.returncode, wall.returncode) == (0, 1), answer.stderr
    assert "RED   nothing is lost: lost 1, must be ≤ 0" in wall.stdout
    assert "at work" in answer.stderr
    assert check("none.py").returncode == 2
    assert check("broken.py").returncode == 125


def test_a_side_that_tells_nothing_is_named_with_its_last_words(tmp_path: Path) -> None:
    """A lab that could not run is neither red nor green."""
    side = tmp_path / "side.py"
    side.write_text("import sys; print('no server', file=sys.stderr); print('{}'); sys.exit(125)")

    with pytest.raises(CannotRun, match=r"side.py ended with code 125: no server"):
        run_side(side, lambda _: None)


def test_both_sides_stand_beside_each_other() -> None:
    """What the check asks for comes first; lists are for pictures; what one side did not tell is a dash."""
    table = rows(
        {"b": 1234, "lost": 2, "dots": [1]}, {"lost": 0, "own": 0.5}, (Need("lost", "", at_most=0),)
    )

    assert [row.figure for row in table] == ["lost", "b", "own"]
    assert tuple(table[0]) == ("lost", "2", "0", "≤ 0")
    assert (table[1].wall, table[1].answer, table[2].wall) == ("1,234", "-", "-")


def test_a_page_has_one_place_for_its_figures() -> None:
    """Else nobody would know which of them is true."""
    page = f"before\n{BEGIN}\nold\n{END}\nafter"

    assert with_block(page, f"{BEGIN}\nnew\n{END}") == page.replace("old", "new")
    with pytest.raises(ValueError, match="one place"):
        with_block("no place", "x")


def test_charts_become_one_picture() -> None:
    """Whatever is drawn has a height of its own."""
    drawn = picture(
        over("Lines & dots", "ms", "s", [Line("a", ((0, 1), (2, 3)))]),
        pairs("Bars", "", [("x", 1, 2)]),
    )

    assert drawn.startswith("<svg xmlns=")
    assert "Lines &amp; dots" in drawn
