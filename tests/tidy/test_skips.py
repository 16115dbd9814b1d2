"""The guard over skips: what is listed and lacking may skip, everything else fails the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SKIPPING = """
import pytest

@pytest.mark.skip(reason="by mark")
def test_mark(): ...

def test_call():
    pytest.skip("by call")

@pytest.mark.xfail(strict=True)
def test_xfail():
    assert False
"""
SKIPPING_WHOLE = 'import pytest\npytest.skip("whole", allow_module_level=True)\n'


def _run(root: Path, folder: Path, expected: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with the real guard over a small project that holds two skips, and one in a whole module."""
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (folder / "conftest.py").write_text((root / "conftest.py").read_text())
    (folder / "tests" / "expected_skips").write_text(expected)
    (folder / "tests" / "test_a.py").write_text(SKIPPING)
    (folder / "tests" / "test_b.py").write_text(SKIPPING_WHOLE)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rfE",
            "--continue-on-collection-errors",
            "-p",
            "no:cacheprovider",
        ],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # they take most of the time
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_a_listed_skip_passes_where_its_condition_holds(root: Path, tmp_path: Path) -> None:
    """The run is green and still says that something was skipped."""
    here = "root" if os.geteuid() == 0 else "not-root"
    run = _run(root, tmp_path, f"tests/test_*.py* {here} for the sake of the test\n")

    assert run.returncode == 0, run.stdout
    assert "3 skipped, 1 xfailed" in run.stdout


def test_a_skip_that_is_not_listed_fails(root: Path, tmp_path: Path) -> None:
    """Tests and whole modules alike; an expected failure is no skip."""
    run = _run(root, tmp_path, "# nothing\n")

    assert run.returncode == 1
    assert "1 failed, 1 xfailed, 2 errors" in run.stdout
    assert (
        "tests/test_a.py::test_mark: skipped, but tests/expected_skips does not list it"
        in run.stdout
    )


def test_a_listed_skip_fails_on_a_machine_that_could_run_it(root: Path, tmp_path: Path) -> None:
    """A broken probe must not turn a test suite into a row of skips."""
    elsewhere = "not-root" if os.geteuid() == 0 else "root"
    run = _run(root, tmp_path, f"tests/* {elsewhere} for the sake of the test\n")

    assert run.returncode == 1
    assert "this machine could run it" in run.stdout


def test_an_unknown_condition_is_refused(root: Path, tmp_path: Path) -> None:
    """A misspelt condition would never hold, or always: neither is what its author wants."""
    run = _run(root, tmp_path, "tests/* no-such-thing reason\n")

    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no-such-thing" in run.stderr


def test_every_listed_pattern_names_a_file_that_exists(root: Path) -> None:
    """A line whose test has gone would let a new test of that name skip unseen."""
    lines = (root / "tests" / "expected_skips").read_text().splitlines()
    patterns = [line.split()[0] for line in lines if line and not line.startswith("#")]

    assert [p for p in patterns if not list(root.glob(p.split("::")[0]))] == []
