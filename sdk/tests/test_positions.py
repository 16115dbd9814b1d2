"""Positions in a task's events: read as they were written, refused where they are none of this task's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.events import Event, Missing, Output, Recovered
from agent_sandbox.positions import Position, parse_position
from agent_sandbox.sequencer import Sequencer
from shared.errors import InvalidMessage
from shared.messages import TaskResult
from shared.testing.said import TASK, Said, Speaker


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


def told(sequencer: Sequencer, stored: list[Said], result: TaskResult) -> list[Event]:
    """Return what is told of what is stored, and then of the result."""
    sequencer.give(tuple(one.stored for one in stored), more=False, drops=0)
    events: list[Event] = []
    while True:
        while (more := sequencer.pop()) is not None:
            events += more
        if not sequencer.is_stuck:
            return events + sequencer.finish(result)
        sequencer.skip()


def test_what_the_result_gave_does_not_come_again_from_the_store() -> None:
    """Nobody could be asked, so the result told the rest; who comes back there finds that all is stored."""
    worker = Speaker()
    said = [worker.write(text) for text in (b"one ", b"two ", b"three")]
    first = told(Sequencer(TASK), said[:1], worker.result(kept=7))
    assert [type(event) for event in first] == [Output, Missing, Output]

    for event, rest in zip(first, (b"two three", b"o three", b""), strict=True):
        again = told(Sequencer(TASK, parse_position(event.position, TASK)), said, worker.result())
        assert b"".join(e.data for e in again if isinstance(e, Output)) == rest


def test_who_leaves_between_a_gap_and_what_follows_it_gets_what_follows() -> None:
    """Both come with the same message; a position lies between them."""
    worker = Speaker()
    said = [worker.write(text) for text in (b"lost", b"kept", b"last")]
    gap, *rest = told(Sequencer(TASK, Position()), said[1:], worker.result())
    assert isinstance(gap, Missing)

    after = parse_position(gap.position, TASK)
    assert told(Sequencer(TASK, after), said[1:], worker.result()) == rest


def test_a_new_attempt_whose_beginning_was_not_heard_has_a_gap() -> None:
    """Its first words are asked for, whatever was heard of the attempt before."""
    old, new = Speaker(1, 1), Speaker(3, 2)
    sequencer = Sequencer(TASK)
    said = [old.write(b"old"), new.event("recovered"), new.write(b"new")]
    for one in (said[0], said[2]):
        sequencer.hear(one.fields, one.body)
    assert sequencer.pop() is not None
    assert sequencer.pop() is None
    assert sequencer.is_stuck

    events = told(sequencer, said[1:2], new.result())
    assert [type(event) for event in events] == [Recovered, Output]
