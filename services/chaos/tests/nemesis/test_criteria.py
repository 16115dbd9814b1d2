"""What must hold of each fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.nemesis import FAULTS
from chaos.nemesis.criteria import CRITERIA, lines, together

PAGE = Path(__file__).parents[4] / "docs" / "chaos-faults.md"


def test_each_fault_has_its_criteria_and_its_line_on_the_page() -> None:
    """So that none is done without saying what must hold, and none is promised that is not there."""
    assert FAULTS.keys() == CRITERIA.keys()
    page = PAGE.read_text()
    rows = {name: line for line in page.splitlines() for name in FAULTS if f"| `{name}` |" in line}
    assert rows.keys() == FAULTS.keys()
    for name, line in rows.items():
        assert line.startswith(f"| {CRITERIA[name].number} |")


@pytest.mark.parametrize(
    ("value", "outcome"), [(0.9, "pass"), (1.0, "pass"), (1.1, "fail"), (None, "unknown")]
)
def test_a_figure_is_held_against_its_bound(value: float | None, outcome: str) -> None:
    """The bound itself is still good; what was not measured is no pass."""
    measured = dict.fromkeys(CRITERIA["nodes-killed"].most, 0.0) | {"detect_p95_s": value}

    judged = lines("nodes-killed", measured)

    assert {line.figure: line.outcome for line in judged}["detect_p95_s"] == outcome
    assert together(tuple(line.outcome for line in judged)) == outcome


def test_a_failure_weighs_more_than_what_is_not_known() -> None:
    """And what is not known more than a pass."""
    assert together(("pass", "unknown", "fail")) == "fail"
    assert together(("pass", "unknown")) == "unknown"
    assert together(()) == "pass"
