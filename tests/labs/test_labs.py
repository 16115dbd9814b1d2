"""Each lab as a person runs it: red on the wall, green on the answer, a picture, and nothing left running."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.e2e.conftest import PROGRAM

from labs.shelf import Lab, lab, labs

TAKES_S = 420.0


@pytest.mark.slow
@pytest.mark.timeout(TAKES_S + 20)
@pytest.mark.parametrize("one", labs(), ids=lambda one: one.folder.name)
def test_a_lab_is_red_on_its_wall_and_green_on_its_answer(one: Lab, tmp_path: Path) -> None:
    """The last line says all of it."""
    done = subprocess.run(
        [PROGRAM, "lab", str(one.number), "--out", tmp_path],
        capture_output=True,
        text=True,
        timeout=TAKES_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-6000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert {"lab", "wall", "answer", "check_red", "check_green", "pictures"} <= set(told)
    assert (told["lab"], told["check_red"], told["check_green"]) == (one.number, True, True)
    [picture] = told["pictures"]
    assert ET.parse(picture).getroot().tag.endswith("svg")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_check_is_red_on_a_wall_that_somebody_takes_for_an_answer() -> None:
    """As `./dev lab 1 labs/01-single-pod/wall.py`."""
    folder = lab(1).folder
    done = subprocess.run(
        [sys.executable, folder / "check.py", folder / "wall.py"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1] == "wall.py: red"
