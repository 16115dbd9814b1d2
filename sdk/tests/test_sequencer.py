"""Putting a task's messages in order: every byte once, whatever is lost, repeated, stored or said by a zombie."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.events import Event, Missing, Output, Recovered, Started
from agent_sandbox.positions import Position, parse_position
from agent_sandbox.sequencer import Sequencer
from shared import headers
from shared.messages import TaskResult, WorkspaceLost
from shared.testing.said import TASK, Said, Speaker, story

START = Position()


def heard(sequencer: Sequencer, said: Iterable[Said]) -> list[Event]:
    """Return what a reader who is always there is told of live messages."""
    events: list[Event] = []
    for one in said:
        sequencer.hear(one.fields, one.body)
        events += popped(sequencer)
    return events


def popped(sequencer: Sequencer) -> list[Event]:
    """Return all that can be told now."""
    events: list[Event] = []
    while (more := sequencer.pop()) is not None:
        events += more
    return events


def replayed(sequencer: Sequencer, stored: list[Said], result: TaskResult) -> list[Event]:
    """Return what is told when everything that is stored was asked for, and then the result."""
    events = popped(sequencer)
    for _ in range(1000):
        if not sequencer.is_short_of(result):
            break
        sequencer.forget_stored()
        sequencer.give(tuple(one.stored for one in stored), more=False, drops=sequencer.drops)
        fresh = popped(sequencer)
        if not fresh:
            if not sequencer.is_stuck:
                break
            sequencer.skip()
        events += fresh
    return events + popped(sequencer) + sequencer.finish(result)


def written(events: list[Event], stream: str = "stdout") -> bytes:
    """Return a stream's output, holes as question marks, after checking that its offsets fit together."""
    data = b""
    for event in events:
        if isinstance(event, Output) and event.stream == stream:
            assert event.offset == len(data)
            data += event.data
        elif isinstance(event, Missing) and event.stream == stream:
            data += b"?" * (event.size or 0)
    return data


@given(seed=st.integers(0, 10_000), lost=st.integers(0, 10_000), room=st.sampled_from([700, 10**6]))
def test_what_is_lost_live_comes_from_the_store_each_once_and_in_order(
    seed: int, lost: int, room: int
) -> None:
    """Messages are dropped and doubled at random, or there is room for one only: the store has them all."""
    said, worker = story(seed)
    dice = random.Random(lost)
    sequencer, events = Sequencer(TASK, live_bytes_max=room), []
    for one in said:
        for _ in range(dice.choice([0, 1, 1, 2])):
            sequencer.hear(one.fields, one.body)
            if dice.random() < 0.5:
                events += popped(sequencer)
    events += replayed(sequencer, said, worker.result())

    last = [event for event in events if event.attempt == 2]
    assert not any(isinstance(event, Missing) for event in events)
    for stream in worker.written:
        assert written(last, stream) == worker.written[stream]
    assert len({event.position for event in events}) == len(events)


@given(seed=st.integers(0, 10_000), lost=st.integers(0, 10_000), cut=st.integers(0, 40))
def test_who_comes_back_at_any_position_gets_the_rest_and_nothing_twice(
    seed: int, lost: int, cut: int
) -> None:
    """A reader who leaves after any event and one who stays are told the same, also of what is stored nowhere."""
    said, worker = story(seed)
    dice = random.Random(lost)
    stored = [one for one in said if dice.random() < 0.8]
    result = worker.result(kept=dice.choice([3, 1000]))
    whole = replayed(Sequencer(TASK, START), stored, result)
    for event in whole[: cut + 1][-1:]:
        after = parse_position(event.position, TASK)
        rest = replayed(Sequencer(TASK, after), stored, result)

        assert rest == whole[whole.index(event) + 1 :]


@given(seed=st.integers(0, 10_000), lost=st.integers(0, 10_000))
def test_what_nobody_has_is_missing_to_the_byte(seed: int, lost: int) -> None:
    """Not heard, not stored, and not in what the result keeps: its size and stream are said."""
    said, worker = story(seed)
    dice = random.Random(lost)
    stored = [one for one in said if dice.random() < 0.5]
    whole = replayed(Sequencer(TASK, START), stored, worker.result(kept=4))

    last = [event for event in whole if event.attempt == 2]
    for stream, data in worker.written.items():
        shown = written(last, stream)
        assert len(shown) == len(data)
        assert all(a in (b, ord("?")) for a, b in zip(shown, data, strict=True))


def test_after_a_gap_nothing_is_told_until_it_is_filled() -> None:
    """Order comes first; what was heard meanwhile is kept."""
    worker = Speaker()
    first, second, third = (worker.write(text) for text in (b"a", b"b", b"c"))
    sequencer = Sequencer(TASK)
    events = heard(sequencer, [first, third])
    assert written(events) == b"a"
    assert sequencer.is_stuck

    sequencer.give((first.stored, second.stored), more=False, drops=0)

    assert written(events + popped(sequencer)) == b"abc"
    assert not sequencer.is_stuck


def test_a_hole_in_the_store_is_filled_by_what_was_heard() -> None:
    """While the store elects its leader it takes nothing, and live messages may be lost at another time."""
    worker = Speaker()
    said = [worker.write(b"%d" % n) for n in range(6)]
    sequencer = Sequencer(TASK)
    events = heard(sequencer, [said[0], said[2], said[3], said[4]])
    sequencer.give(tuple(said[n].stored for n in (0, 1, 5)), more=False, drops=0)

    assert written(events + popped(sequencer)) == b"012345"


def test_what_was_said_before_an_attach_comes_before_what_is_heard_since() -> None:
    """Although it is heard at once."""
    old, new = Speaker(1, 1), Speaker(3, 2)
    said = [old.write(b"old"), new.event("recovered"), new.write(b"new")]
    sequencer = Sequencer(TASK, START)
    assert heard(sequencer, [said[1], said[2]]) == []

    sequencer.give(tuple(one.stored for one in said), more=False, drops=0)

    assert [type(event) for event in popped(sequencer)] == [Output, Recovered, Output]


def test_a_slow_reader_holds_no_more_than_he_may() -> None:
    """What comes on top is dropped at once, and asked for when he has read so far."""
    worker = Speaker()
    sequencer = Sequencer(TASK, live_bytes_max=100_000)
    said = [worker.write(b"x" * 10_000) for _ in range(100)]
    for one in said:
        sequencer.hear(one.fields, one.body)
        assert sequencer.held_bytes <= 100_000

    assert sequencer.behind
    assert written(replayed(sequencer, said, worker.result())) == worker.written["stdout"]


def test_an_answer_that_was_asked_for_before_messages_were_dropped_is_not_all() -> None:
    """Else the end of the output could be lost without a sign."""
    worker = Speaker()
    sequencer = Sequencer(TASK, live_bytes_max=1000)
    drops = sequencer.drops
    for text in (b"a" * 600, b"b" * 600):
        one = worker.write(text)
        sequencer.hear(one.fields, one.body)
    sequencer.give((), more=False, drops=drops)

    assert sequencer.behind


def test_both_streams_are_counted_apart() -> None:
    """The worker counts both together as well; a reader wants each by itself."""
    worker = Speaker()
    events = heard(
        Sequencer(TASK),
        [worker.write(b"out"), worker.write(b"err!", "stderr"), worker.write(b"more")],
    )

    assert [(e.stream, e.offset, e.data) for e in events if isinstance(e, Output)] == [
        ("stdout", 0, b"out"),
        ("stderr", 0, b"err!"),
        ("stdout", 3, b"more"),
    ]


def test_a_new_attempt_starts_anew_and_the_old_one_is_heard_no_more() -> None:
    """After a recovery the output begins at 0 again; what a zombie still says is dropped."""
    old, new = Speaker(1, 1), Speaker(3, 2)
    events = heard(
        Sequencer(TASK),
        [
            old.write(b"first"),
            new.event("recovered"),
            new.event("started", worker="w2", at_ms=5),
            old.write(b"zombie"),
            new.write(b"again"),
        ],
    )

    assert [type(event) for event in events] == [Output, Recovered, Started, Output]
    assert (events[-1].epoch, events[-1].attempt) == (3, 2)
    assert written(events[-1:]) == b"again"


def test_an_attempt_of_which_nothing_is_left_is_given_from_the_result() -> None:
    """The result's attempt counts: output of an earlier one does not hide any of it."""
    old, new = Speaker(1, 1), Speaker(3, 2)
    sequencer = Sequencer(TASK)
    heard(sequencer, [old.write(b"first")])
    new.write(b"again")
    assert sequencer.is_short_of(new.result())

    assert written(sequencer.finish(new.result())) == b"again"


def test_bytes_that_the_result_could_not_keep_as_text_are_missing_not_changed() -> None:
    """A result holds text; what was no text is replaced in it, and whoever wants bytes must not get those."""
    worker = Speaker()
    worker.write(b"\xff\xfe\x00 and text")
    events = Sequencer(TASK).finish(worker.result())

    assert [type(event) for event in events] == [Missing, Output]
    assert written(events) == b"??\x00 and text"


def test_output_over_the_cap_is_missing_but_for_what_the_result_keeps() -> None:
    """The worker says where it stopped; nobody is asked for what was never said."""
    worker = Speaker()
    sequencer = Sequencer(TASK)
    events = heard(sequencer, [worker.write(b"0123"), worker.event("truncated")])
    worker.written["stdout"] += b"456789"
    result = worker.result(kept=3)
    assert not sequencer.is_short_of(result)

    events += sequencer.finish(result)
    assert [event.size for event in events if isinstance(event, Missing)] == [None, 3]
    assert written(events) == b"0123???789"


NAMES = [
    headers.EVENT, headers.OFFSET, headers.STREAM_OFFSET, headers.EPOCH, headers.ATTEMPT,
    headers.NUMBER, headers.STREAM,
]  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.dictionaries(
                st.sampled_from(NAMES),
                st.sampled_from(["output", "progress", "0", "1", "9" * 30, "-1", "²", ""])
                | st.text(max_size=5),
            ),
            st.binary(max_size=20),
        ),
        max_size=5,
    )
)
def test_no_message_from_a_stranger_breaks_the_reader(
    said: list[tuple[dict[str, str], bytes]],
) -> None:
    """Anything may stand in a message: it yields events or nothing, never an exception."""
    sequencer = Sequencer(TASK)
    for fields, body in said:
        sequencer.hear(fields, body)
        sequencer.skip()
        popped(sequencer)


def test_a_workspace_that_was_lost_between_two_tasks_is_said_before_the_next_one_runs() -> None:
    """No worker died in this task, and yet it meets an empty workspace."""
    loss = WorkspaceLost(cause="released", epoch=2, at_ms=1)
    (event,) = heard(Sequencer(TASK), [Speaker(3).event("workspace_lost", workspace_lost=loss)])

    assert isinstance(event, Recovered)
    assert (event.event.interruption, event.event.workspace_lost) == (None, loss)


def test_all_positions_of_a_story_are_different() -> None:
    """Else a reader who comes back could not say where he was."""
    said, worker = story(7)
    events = replayed(Sequencer(TASK, START), said, worker.result())

    assert all(a.position != b.position for a, b in itertools.pairwise(events))
