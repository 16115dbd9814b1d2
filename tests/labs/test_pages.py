"""What each lab's page says of a run is what the run said: nothing in it was written by hand."""

from __future__ import annotations

import json
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import PROGRAM

from labs.comparing import BLOCK, readme_block, run_text
from labs.frame import is_green
from labs.shelf import Lab, labs

ROOT = Path(__file__).parents[2]
LABS = labs()
WORDS_MAX = 1500
"""Ten minutes, code left out."""


@pytest.fixture(params=LABS, ids=lambda one: one.folder.name)
def lab(request: pytest.FixtureRequest) -> Lab:
    """Each lab."""
    one: Lab = request.param
    return one


def kept(lab: Lab) -> dict[str, Any]:
    """Return the run that the page shows."""
    run: dict[str, Any] = json.loads(lab.run_file.read_text())
    return run


def test_the_labs_are_numbered_without_a_gap() -> None:
    """And each has all its parts."""
    assert [one.number for one in LABS] == list(range(1, len(LABS) + 1))
    parts = ("wall.py", "answer.py", "check.py", "picture.py", "README.md", "run.json", "run.svg")
    assert [
        one.folder / part for one in LABS for part in parts if not (one.folder / part).exists()
    ] == []


def test_the_figures_of_a_page_are_those_of_its_run(lab: Lab) -> None:
    """`agent-sandbox lab N --keep` writes both."""
    run = kept(lab)

    assert lab.run_file.read_text() == run_text(run)
    block = readme_block(run, lab.needs(), lab.tell(run["wall"], run["answer"]))
    assert BLOCK.findall(lab.readme.read_text()) == [block]
    assert lab.picture_file.read_text() == lab.draw(run["wall"], run["answer"])
    assert ET.fromstring(lab.picture_file.read_text()).attrib["width"] == "900"


def test_the_kept_run_is_red_on_the_wall_and_green_on_the_answer(lab: Lab) -> None:
    """A page that shows anything else teaches nothing."""
    run = kept(lab)

    assert not is_green(lab.needs(), run["wall"])
    assert is_green(lab.needs(), run["answer"])
    assert not run["commit"].endswith("-dirty")


def test_a_page_is_read_in_ten_minutes_and_ends_with_the_real_module(lab: Lab) -> None:
    """Its last words lead to the source, and say what that does beyond."""
    text = lab.readme.read_text()
    last = text.strip().rpartition("\n\n")[2]

    assert len(BLOCK.sub("", text).split()) < WORDS_MAX
    assert last.startswith("The production module")
    assert "beyond this" in " ".join(last.split())
    named = re.findall(r"\]\((\.\./\.\./(?:services|shared|sdk)/[^)]+)\)", last)
    assert named
    assert [path for path in named if not (lab.folder / path).exists()] == []


def test_the_labs_are_listed() -> None:
    """By their titles, which say what breaks and what mends it."""
    listed = subprocess.run(
        [PROGRAM, "lab", "list"], capture_output=True, text=True, timeout=50, check=True
    ).stdout

    assert [one.title for one in LABS if one.title not in listed] == []
    assert all(" → " in one.title for one in LABS)


def test_a_lab_that_is_not_there_is_said_in_a_line() -> None:
    """With those that are."""
    done = subprocess.run(
        [PROGRAM, "lab", "99"], capture_output=True, text=True, timeout=50, check=False
    )

    assert done.returncode == 125
    assert "there is no lab 99: 1" in done.stderr
