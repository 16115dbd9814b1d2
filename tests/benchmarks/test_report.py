"""A report says what was reached, in the stable form that other programs read."""

from __future__ import annotations

import json
import math

import pytest
from harness.report import Report, Target, figures_table, round_figure, table

TARGETS = (
    Target("warm_p50_ms", 10),
    Target("warm_share", 0.99, at_least=True),
    Target("burst_s", 1),
)


def _report(**figures: float) -> Report:
    report = Report("tti", "abc", {"cores": 2}, TARGETS)
    for name, value in figures.items():
        report.add(name, value)
    return report


def test_the_last_line_has_the_agreed_fields_and_only_measured_targets() -> None:
    """A target of a part that did not run is neither reached nor missed."""
    report = _report(warm_p50_ms=8.5, warm_share=0.999, extra=3)

    assert json.loads(report.line()) == {
        "bench": "tti",
        "commit": "abc",
        "machine": {"cores": 2},
        "figures": {"warm_p50_ms": 8.5, "warm_share": 0.999, "extra": 3},
        "targets": {
            "warm_p50_ms": {"value": 8.5, "reach": 10, "at_least": False, "ok": True},
            "warm_share": {"value": 0.999, "reach": 0.99, "at_least": True, "ok": True},
        },
        "ok": True,
    }
    assert "\n" not in report.line()


@pytest.mark.parametrize(
    ("name", "value", "met"),
    [
        ("warm_p50_ms", 10.0, True),
        ("warm_p50_ms", 10.01, False),
        ("warm_share", 0.99, True),
        ("warm_share", 0.98, False),
    ],
)
def test_a_target_is_met_up_to_its_very_value(name: str, value: float, met: bool) -> None:
    """Times must not be larger, shares not smaller."""
    report = _report(**{name: value})

    assert (report.missed() == []) is met
    assert report.to_json()["ok"] is met


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_figure_that_is_no_number_is_refused(value: float) -> None:
    """The last line must be JSON, which has neither."""
    with pytest.raises(ValueError, match="finite"):
        _report(x=value)


def test_a_figure_is_entered_once() -> None:
    """Two parts that use one name would hide each other."""
    report = _report(x=1)

    with pytest.raises(ValueError, match="twice"):
        report.add("x", 2)


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (8.123456, 8.123),
        (0.00123456, 0.001235),
        (12345.678, 12346.0),
        (0.0, 0.0),
        (300.0, 300.0),
        (-1.23456, -1.235),
    ],
)
def test_figures_keep_four_digits(value: float, rounded: float) -> None:
    """More would pretend a precision that no run has."""
    assert round_figure(value) == rounded


def test_the_table_shows_targets_first_and_what_was_missed() -> None:
    """A person sees at once what is not well."""
    lines = figures_table(_report(extra=1.5, burst_s=2.0, warm_p50_ms=8)).splitlines()

    assert [line.split()[0] for line in lines[2:]] == ["warm_p50_ms", "burst_s", "extra"]
    assert "reached" in lines[2]
    assert "MISSED" in lines[3]


def test_columns_stand_below_each_other() -> None:
    """Names to the left, numbers to the right."""
    assert table(["a", "n"], [["long", "1"], ["b", "22"]]).splitlines() == [
        "a      n",
        "----  --",
        "long   1",
        "b     22",
    ]
