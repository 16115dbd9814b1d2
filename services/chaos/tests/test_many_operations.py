"""Checkers hold for any history: clean ones pass, spoiled ones do not, and long ones take no longer for each operation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.core.history import gather
from chaos.core.journal import chains, elements
from chaos.core.rows import Footer, Header, Op, Seen, Stored, Version
from chaos.core.verdict import judge
from chaos.testing.made import SID, Made

LONG = 100_000
"""Operations of a long history."""


@given(st.lists(st.sampled_from(["turn", "lose", "half"]), min_size=1, max_size=25))
@settings(max_examples=60, deadline=None)
def test_whatever_happens_to_a_session_that_goes_on_well_is_true(events: list[str]) -> None:
    """Turns, losses of owners, and losses in the middle of a turn, in any order."""
    made = Made()
    for event in events:
        if event == "turn":
            made.turn()
        elif event == "lose":
            made.lose_owner()
        else:
            op = made.invoke()
            made.work(op, upto=1)
            made.lose_owner()
            made.work(op)
            made.finish(op)
    made.turn()

    verdict = judge(made.close())

    assert verdict.verdict == "true", verdict


@given(st.integers(2, 20), st.data())
@settings(max_examples=80, deadline=None)
def test_any_change_of_what_is_left_at_the_end_is_found(turns: int, data: st.DataObject) -> None:
    """A token that is gone, doubled, foreign, or elsewhere."""
    made = Made()
    for _ in range(turns):
        made.turn()
    clean = list(made.journal)
    place = data.draw(st.integers(0, len(clean) - 1))
    match data.draw(st.sampled_from(["drop", "double", "foreign", "move"])):
        case "drop":
            made.journal.pop(place)
        case "double":
            made.journal.insert(place, clean[place])
        case "foreign":
            made.journal.insert(place, "99-0.0")
        case _:
            made.journal.append(made.journal.pop(place))
    verdict = judge(made.close())

    assert (verdict.verdict == "false") == (made.journal != clean)


@pytest.mark.parametrize(
    "count", [4_000, pytest.param(LONG, marks=[pytest.mark.slow, pytest.mark.pure])]
)
def test_many_operations_are_judged_in_linear_time(count: int) -> None:
    """In one session: whatever looks at all of its past for each operation would still be at it tomorrow."""
    rows: list[object] = [Header(time=0, run="long", seed=1, commit="", began_ms=0)]
    journal: list[str] = []
    for number in range(count):
        journal += elements(f"1-{number}", 1)
    values = chains(journal)
    for number in range(count):
        at_s, task = float(number), f"t{number}"
        op = Op(
            time=at_s,
            type="invoke",
            f="append",
            process=1,
            session=SID,
            token=f"1-{number}",
            task=task,
            steps=1,
        )
        end = Op(
            time=at_s + 0.5,
            type="ok",
            f="append",
            process=1,
            session=SID,
            token=op.token,
            task=task,
            seen=Seen(length=number + 1, chain=values[number + 1]),
        )
        seq = 2 * number + 1
        stored = Stored(
            time=at_s + 0.4, at=(0, seq), session=SID, task=task, status="ok", epoch=1, worker="w"
        )
        version = Version(
            time=at_s + 0.4,
            at=(0, seq + 1),
            session=SID,
            state="running",
            epoch=1,
            owner="w",
            tasks_done=number + 1,
        )
        rows += [op, stored, version, end]
    read = Op(time=count, type="invoke", f="read", process=1, session=SID, token="r", task="r")
    whole = Seen(length=count, chain=values[-1], tokens=tuple(journal))
    last = Op(
        time=count + 1, type="ok", f="read", process=1, session=SID, token="r", task="r", seen=whole
    )
    kept = Stored(
        time=count + 1, at=(0, 3 * count), session=SID, task="r", status="ok", epoch=1, worker="w"
    )
    history = gather([*rows, read, kept, last, Footer(time=count + 2)])  # type: ignore[list-item]  # rows

    verdict = judge(history)

    assert verdict.verdict == "true", verdict
    assert verdict.looked_at["appends"] == count
