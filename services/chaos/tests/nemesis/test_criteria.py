"""What must hold of each fault."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chaos.core.criteria import CRITERIA, together
from chaos.core.report.data import Findings, conclude
from chaos.core.report.faults import not_done, row_of, to_markdown
from chaos.core.rows import Header, Nemesis
from chaos.nemesis import FAULTS
from chaos.testing.made import Made

PAGE = Path(__file__).parents[4] / "docs" / "chaos-faults.md"


def test_each_fault_has_its_criteria_and_its_line_on_the_page() -> None:
    """So that none is done without saying what must hold, and none is promised that is not there."""
    assert FAULTS.keys() == CRITERIA.keys()
    page = PAGE.read_text()
    rows = {name: line for line in page.splitlines() for name in FAULTS if f"| `{name}` |" in line}
    assert rows.keys() == FAULTS.keys()
    for name, line in rows.items():
        assert line.startswith(f"| {CRITERIA[name].number} |")


def test_a_failure_weighs_more_than_what_is_not_known() -> None:
    """And what is not known more than a pass."""
    assert together(("pass", "unknown", "fail")) == "fail"
    assert together(("pass", "unknown")) == "unknown"
    assert together(()) == "pass"


def judged(*extra: Nemesis, run: str = "fault-nodes-killed") -> Findings:
    """Return what is found in a clean run in which a session lost its owner once."""
    made = Made()
    made.turn()
    op = made.invoke()
    made.work(op, upto=1)
    made.lose_owner()
    made.work(op)
    made.finish(op)
    assert isinstance(made.rows[0], Header)
    made.rows[0] = msgspec.structs.replace(made.rows[0], run=run)
    made.rows += extra
    return conclude(made.close())


def test_a_fault_alone_is_held_against_its_own_bounds() -> None:
    """All of them are reached, and the verdict is true."""
    found = judged()

    assert found.verdict.verdict == "true", found.verdict
    assert found.targets["detect_p95_s"].reach == CRITERIA["nodes-killed"].most["detect_p95_s"]
    assert found.outcome == "pass", found.figures


def test_a_figure_past_its_bound_fails_the_fault() -> None:
    """Whatever the verdict: here owners were given up, where none may be."""
    found = judged(run="fault-clock-jumps")

    assert found.figures["fences"] == 1
    assert found.outcome == "fail"


def test_a_bound_without_a_figure_is_not_known_to_be_held() -> None:
    """A queue whose acknowledgements nobody saw says nothing about its gaps."""
    assert judged(run="fault-queue-leader-killed").outcome == "unknown"


def test_a_fault_that_cannot_show_its_bite_is_no_pass() -> None:
    """The verdict is unknown, with the reason."""
    found = judged(Nemesis(time=9.0, type="missed", fault="nodes-killed", detail="it lived on"))

    assert found.verdict.verdict == "unknown"
    assert any("it lived on" in why for why in found.verdict.unknowns)
    assert found.outcome == "unknown"


def test_what_a_fault_saw_go_wrong_itself_makes_the_verdict_false() -> None:
    """Like anything that a checker finds."""
    found = judged(Nemesis(time=9.0, type="failed", fault="poison-task", detail="it ended ok"))

    assert found.verdict.counts["broken"] == 1
    assert found.verdict.verdict == "false"
    assert found.outcome == "fail"


def test_the_table_says_of_each_fault_what_failed_or_why_it_is_not_known() -> None:
    """One line each, with the figures that were measured."""
    missed = Nemesis(time=9.0, type="missed", fault="nodes-killed", detail="it lived on")
    rows = [
        row_of(judged()),
        row_of(judged(run="fault-clock-jumps")),
        row_of(judged(missed)),
        not_done("power-loss", "no disk"),
    ]

    assert [(row.number, row.outcome) for row in rows] == [
        ("1", "pass"), ("9", "fail"), ("1", "unknown"), ("11", "unknown"),
    ]  # fmt: skip
    assert [row.why for row in rows[:2]] == ["", "fences 1, at most 0"]
    assert "it lived on" in rows[2].why
    table = to_markdown(rows).splitlines()
    assert len(table) == 2 + len(rows)
    assert len({line.count("|") for line in table}) == 1
