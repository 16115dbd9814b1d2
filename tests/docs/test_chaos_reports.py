"""What is shown of the chaos lab's reports; that it is what pages show: test_published_figures.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness import chaos_reports


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


def test_without_reports_nothing_is_said(tmp_path: Path) -> None:
    """Not a table of nothing."""
    assert chaos_reports.readme_block(tmp_path) == ""
