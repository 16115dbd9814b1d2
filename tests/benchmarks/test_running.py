"""A benchmark's last line is its result; its exit code says whether it could measure, and reached what it must."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness.pictures import Series
from harness.report import Report, Target
from harness.running import fresh_folder, keep

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PROGRAM = """
import asyncio, sys
sys.path.insert(0, {path!r})
from harness.report import Report, Target
from harness.running import CannotMeasure, fresh_folder, run

async def measure():
    report = Report("x", "abc", {{}}, [Target("a_ms", 1)])
    {body}
    return report, []

sys.exit(run(measure, save=False, must_reach={must_reach}))
"""


def _program(body: str, *, must_reach: bool = False) -> list[str]:
    text = PROGRAM.format(path=str(BENCHMARKS), body=body, must_reach=must_reach)
    return [sys.executable, "-c", text]


def _run(body: str, *, must_reach: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _program(body, must_reach=must_reach),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_a_missed_speed_is_said_and_is_no_failure() -> None:
    """Exit 0, a sentence for people, and the last line of stdout for programs."""
    done = _run("report.add('a_ms', 3); print('from something measured')")

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "MISSED: a_ms is 3, to reach: ≤ 1" in lines
    assert json.loads(lines[-1])["ok"] is False
    assert "from something measured" in done.stderr


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("report.add('a_ms', 3)", "MISSED: a_ms is 3, to reach: ≤ 1"),
        ("report.add('b_ms', 0)", "MISSED: a_ms was not measured, to reach: ≤ 1"),
    ],
)
def test_a_missed_promise_is_a_failure_with_its_figures(body: str, said: str) -> None:
    """Also where its figure is not there at all: what nobody looked at was not kept."""
    done = _run(body, must_reach=True)

    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert said in lines
    assert json.loads(lines[-1])["bench"] == "x"


def test_a_kept_promise_is_no_failure() -> None:
    """Exit 0: else every run would be one."""
    assert _run("report.add('a_ms', 1)", must_reach=True).returncode == 0


def test_what_could_not_be_measured_fails_without_a_result() -> None:
    """Nobody may take the line of an earlier run for this one's."""
    done = _run("raise CannotMeasure('no such thing')")

    assert done.returncode == 1
    assert done.stdout == ""
    assert "could not measure: no such thing" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_benchmark_cleans_up(number: signal.Signals, tmp_path: Path) -> None:
    """Whoever stops it finds nothing left behind."""
    body = "\n    with fresh_folder() as f: print(f, file=sys.stderr, flush=True); await asyncio.sleep(30)"
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        _program(body), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    ) as one:
        assert one.stderr is not None
        folder = Path(one.stderr.readline().strip())
        assert folder.is_dir()
        one.send_signal(number)
        assert one.wait(20) == 130

    assert list(tmp_path.iterdir()) == []


def test_a_fresh_folder_lets_others_through() -> None:
    """Sandboxes run under uids of their own."""
    with fresh_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o711

    assert not folder.exists()


def test_a_kept_result_holds_figures_and_pictures(tmp_path: Path) -> None:
    """Named by bench, part and commit; the object is that of the last line, with what was noted."""
    report = Report("tti", "abc", {"cores": 2}, [Target("a", 1)], notes=["slow"], sections=["x\ny"])
    report.add("a", 1)

    files = keep(report, [Series("s", [1.0], [0.0])], tmp_path / "results", "warm")

    assert [file.name for file in files] == ["tti-warm-abc.json", "tti-warm-abc.svg"]
    assert json.loads(files[0].read_text()) == report.to_json() | {
        "notes": ["slow"],
        "sections": [["x", "y"]],
    }
    assert keep(report, [], tmp_path)[0].name == "tti-abc.json"
