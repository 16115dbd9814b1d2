"""What is shown of the chaos lab's reports; that it is what pages show: test_published_figures.py."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from harness import chaos_reports
from harness.running import CannotMeasure

from chaos.adapters.history_file import HistoryFile
from chaos.testing.made import Made

ROOT = Path(__file__).parents[2]


def report(folder: Path, seed: int, **figures: float) -> None:
    """Keep a report."""
    said: dict[str, Any] = {
        "run": "headline",
        "seed": seed,
        "commit": "c",
        "verdict": {"verdict": "true", "false_per_node_hour": 0.0},
        "figures": {"sessions": 300, "sessions_hit": 90, "lost": 0, "error_share": 0.0} | figures,
        "end_s": 1000.0,
    }
    (folder / "report.json").write_text(json.dumps(said))


def test_a_figure_is_the_median_of_the_seeds_and_names_the_worst(tmp_path: Path) -> None:
    """And whatever was lost in any of them is counted."""
    for seed, took_s in ((1, 2.0), (2, 3.0), (3, 9.0)):
        folder = tmp_path / "docs" / "results" / f"headline-{seed}"
        folder.mkdir(parents=True)
        report(folder, seed, recover_p95_s=took_s, lost=float(seed == 3))

    block = chaos_reports.readme_block(tmp_path)

    assert "embedded, 3 seeds" in block
    assert "| … P95 | 3 s (9) |" in block
    assert "without an end | 1 |" in block
    assert "verdict true | 3 of 3 |" in block
    assert chaos_reports.results_page(tmp_path).count("](headline-") == 3


def test_a_figure_that_a_seed_lacks_says_of_how_many_it_is(tmp_path: Path) -> None:
    """The worst of those that have it may not be the worst."""
    for seed in (1, 2, 3):
        folder = tmp_path / "docs" / "results" / f"headline-{seed}"
        folder.mkdir(parents=True)
        report(folder, seed, **({} if seed == 3 else {"recover_p95_s": 2.0}))

    block = chaos_reports.readme_block(tmp_path)

    assert "| … P95 | 2 s (2; 2 of 3 seeds) |" in block
    assert "over 30 s | 0.00% (0.00%) |" in block


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The benchmark, in a checkout with a report of one seed."""
    spec = importlib.util.spec_from_file_location("bench_chaos", ROOT / "benchmarks" / "chaos.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    earlier = tmp_path / "docs" / "results" / "headline-1-c"
    earlier.mkdir(parents=True)
    report(earlier, 1)
    return module


async def test_a_report_takes_the_place_of_an_earlier_one_only_once_it_is_kept(
    bench: ModuleType, tmp_path: Path
) -> None:
    """A run that can't be kept takes nothing away."""
    results, found = tmp_path / "docs" / "results", {"run": "headline", "seed": 1, "commit": "c"}
    with pytest.raises(CannotMeasure):
        await bench._publish(tmp_path / "nowhere", found, 4.0)
    assert [path.name for path in results.iterdir()] == ["headline-1-c"]
    assert not (results / "headline-1-c" / "README.md").exists()

    made = Made()
    made.turn()
    run = tmp_path / "run"
    run.mkdir()
    with HistoryFile(run / "history.jsonl") as notes:
        made.close()
        for row in made.rows:
            notes.write(row)
    await bench._publish(run, found, 4.0)

    assert [path.name for path in results.iterdir()] == ["headline-1-c"]
    assert (results / "headline-1-c" / "README.md").exists()


def test_without_reports_nothing_is_said(tmp_path: Path) -> None:
    """Not a table of nothing."""
    assert chaos_reports.readme_block(tmp_path) == ""
