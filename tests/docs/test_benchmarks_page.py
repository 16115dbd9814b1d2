"""The page on benchmarks names every program, its targets as they are in the code, and options that there are."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
PAGE = (FOLDER / "README.md").read_text()
PROGRAMS = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


def section(name: str) -> str:
    """Return what the page says of one benchmark; empty: nothing."""
    found = re.search(rf"^## {re.escape(name)}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def targets(name: str) -> list[str]:
    """Return the figures that a program's own module gives a target, as far as they stand there as words."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    return [
        call.args[0].value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "Target"
        and isinstance(call.args[0], ast.Constant)
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_benchmark_is_described_with_its_targets(name: str) -> None:
    """How it is called, what it measures, and what it must reach."""
    assert re.search(rf"^    \./dev bench {re.escape(name)}\b", PAGE, re.MULTILINE)
    assert [figure for figure in targets(name) if f"`{figure}`" not in section(name)] == []
    assert "| target |" in section(name)


def test_no_benchmark_is_described_that_is_not_there() -> None:
    """A command of the page that cannot be called."""
    assert set(re.findall(r"\./dev bench ([a-z-]+)", PAGE)) <= set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_option_on_the_page_is_one_of_the_program(name: str) -> None:
    """Of the table of options, of its own section, and of the calls at the top."""
    rows = re.findall(r"^\| (`--.*?) \| ([a-z, -]+) \|", PAGE, re.MULTILINE)
    calls = re.findall(rf"^    \./dev bench {re.escape(name)}\b(.*)$", PAGE, re.MULTILINE)
    said = [*(options for options, of in rows if of in (name, "all")), section(name), *calls]
    named = {option for text in said for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)}

    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", "--help"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert named >= {"--save", "--isolation"}
    assert [option for option in named if option not in done.stdout] == []
