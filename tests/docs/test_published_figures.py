"""Every figure that a page shows is one that was measured and kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import published


def kept(**figures: float) -> dict[str, dict[str, object]]:
    """Return the results of one benchmark, `tti`."""
    return {"tti": {"bench": "tti", "figures": figures, "targets": {}}}


@pytest.mark.parametrize("page", published.pages(), ids=lambda page: page.parent.name)
def test_a_page_shows_what_was_measured(page: Path) -> None:
    """A figure that was changed by hand, or a new result that is not shown: `./dev figures` mends it."""
    assert page.read_text() == published.pages()[page]


def test_a_row_shows_its_figures_in_words_and_value() -> None:
    """As Python formats them."""
    row = published.Row("{calls:,.0f} calls", "{p50_ms:.1f} ms", "tti")
    table = published.first_page([row], kept(calls=2700.0, p50_ms=14.94))
    assert table.splitlines()[-1] == "| 2,700 calls | 14.9 ms | `tti` |"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (published.Row("a", "{gone:.1f}", "tti"), "tti: '{gone:.1f}': 'gone'"),
        (published.Row("a", "1", "soak"), "soak: no result is kept"),
    ],
    ids=["figure", "benchmark"],
)
def test_a_row_whose_figure_was_not_measured_is_refused(row: published.Row, said: str) -> None:
    """Which, and of which benchmark."""
    with pytest.raises(published.NotPublished, match=said):
        published.first_page([row], kept(p50_ms=1.0))


def test_a_missed_target_is_called_missed_on_either_side() -> None:
    """And what had to be larger is not shown as if it had to be smaller."""
    results = kept()
    results["tti"]["targets"] = {
        "small": {"value": 5.0, "reach": 4, "at_least": False, "ok": False},
        "large": {"value": 0.5, "reach": 0.99, "at_least": True, "ok": False},
        "fine": {"value": 3.0, "reach": 4, "at_least": False, "ok": True},
        "even": {"value": 0, "reach": 0, "at_least": False, "ok": True},
    }
    assert published.targets_page(results).splitlines()[2:] == [
        "| tti | `small` | 5 | ≤ 4, **missed** |",
        "| tti | `large` | 0.5 | ≥ 0.99, **missed** |",
        "| tti | `fine` | 3 | ≤ 4 |",
        "| tti | `even` | 0 | ≤ 0 |",
    ]


def test_two_results_of_one_benchmark_are_refused(tmp_path: Path) -> None:
    """Nobody could say which of them a page shows."""
    for name in ("tti-1", "tti-2"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"bench": "tti"}))
    with pytest.raises(published.NotPublished, match="tti: more than one"):
        published.read_results(tmp_path)


@pytest.mark.parametrize(
    "page", ["no place", f"{published.BEGIN} {published.BEGIN} {published.END}"]
)
def test_a_page_without_one_place_for_its_table_is_refused(page: str) -> None:
    """None, or two."""
    with pytest.raises(published.NotPublished, match="expected"):
        published.put(page, "table")
