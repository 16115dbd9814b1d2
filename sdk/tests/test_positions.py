"""Positions in a task's events: read as they were written, refused where they are none of this task's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.positions import Position, parse_position
from shared.errors import InvalidMessage

TASK = "task-0001"


@given(st.builds(Position, *[st.integers(0, 10**15 - 1)] * 5, st.booleans()))
def test_a_position_is_read_as_it_was_written(position: Position) -> None:
    """Behind the end there is nothing more to tell apart."""
    read = parse_position(position.text(TASK), TASK)

    assert read == (Position(ended=True) if position.ended else position)


@pytest.mark.parametrize(
    "text",
    ["", "x", "end", "1.1.1.1.1", "1.1.1.1.1.", "-1.1.1.1.1.%", "1.1.1.1.%", "1.1.1.1.1.1.%",
     "¹.1.1.1.1.%", "9999999999999999.1.1.1.1.%", "1.1.1.1.1.%\n", " 1.1.1.1.1.%", "1" * 1000],
)  # fmt: skip
def test_rubbish_is_no_position(text: str) -> None:
    """It is refused by name, whatever it looks like."""
    mark = Position().text(TASK).rpartition(".")[2]
    with pytest.raises(InvalidMessage, match=r"after: no position|of another task"):
        parse_position(text.replace("%", mark), TASK)


def test_a_position_of_another_task_is_refused() -> None:
    """It would skip what its reader has never had."""
    with pytest.raises(InvalidMessage, match="another task"):
        parse_position(Position(1, 1, 5, 100, 0).text("task-0002"), TASK)
