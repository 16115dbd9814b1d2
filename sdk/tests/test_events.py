"""Putting a task's messages in order: every byte once, whatever is lost, repeated or said by a zombie."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.events import Event, Missing, Output, Recovered, Sequencer, Started
from shared import headers, messages
from shared.files import Stream
from shared.messages import OutputEvent, TaskResult, WorkspaceLost


def fields(event: str, *, epoch: int = 1, attempt: int = 1, **more: str) -> dict[str, str]:
    """Return a message's headers."""
    named = {"offset": headers.OFFSET, "stream": headers.STREAM}
    return {
        headers.EVENT: event,
        headers.EPOCH: str(epoch),
        headers.ATTEMPT: str(attempt),
        **{named[name]: value for name, value in more.items()},
    }


def result(stdout: bytes, *, kept: int = 1000, epoch: int = 1, attempt: int = 1) -> TaskResult:
    """Return the result of a task that wrote this."""
    stream = Stream(text=stdout[-kept:].decode(), size=len(stdout), truncated=len(stdout) > kept)
    return TaskResult(
        task="t", session="s", tenant="d", status="ok", stdout=stream, epoch=epoch, attempt=attempt
    )


def written(events: list[Event]) -> bytes:
    """Return all output among the events, after checking that its offsets fit together."""
    data = b""
    for event in events:
        if isinstance(event, Output):
            assert event.offset == len(data)
            data += event.data
    return data


def pieces_of(text: bytes, cuts: list[int]) -> list[tuple[int, bytes]]:
    """Return (offset, piece) of a text that is cut at these places."""
    edges = [0, *sorted({cut % (len(text) + 1) for cut in cuts}), len(text)]
    return [(a, text[a:b]) for a, b in itertools.pairwise(edges) if a < b]


@given(
    text=st.text(alphabet="abc\n", max_size=60).map(str.encode),
    cuts=st.lists(st.integers(0, 100), max_size=6),
    seed=st.integers(0, 1000),
)
def test_whatever_is_lost_or_repeated_all_output_is_given_once(
    text: bytes, cuts: list[int], seed: int
) -> None:
    """Messages are dropped and doubled at random; the result fills what is missing."""
    dice = random.Random(seed)
    sequencer, events = Sequencer(), []
    for offset, piece in pieces_of(text, cuts):
        for _ in range(dice.choice([0, 1, 1, 2])):
            message = fields("output", offset=str(offset), stream="stdout")
            events += sequencer.take(message, piece)
    events += sequencer.finish(result(text))

    assert written(events) == text
    assert not any(isinstance(event, Missing) for event in events)


def test_a_hole_that_the_result_cannot_fill_is_said() -> None:
    """The result keeps only the end: the number of bytes that nobody will see is an event."""
    sequencer = Sequencer()
    events = sequencer.take(fields("output", offset="0", stream="stdout"), b"0123")
    events += sequencer.take(fields("output", offset="8", stream="stdout"), b"89")

    events += sequencer.finish(result(b"0123456789", kept=4))

    assert [type(event) for event in events] == [Output, Missing, Output]
    assert events[1] == Missing(stream="stdout", size=2, attempt=1)
    assert events[2] == Output(stream="stdout", offset=6, data=b"6789", attempt=1)


def test_both_streams_share_the_offsets_and_are_counted_apart() -> None:
    """The worker counts both together; a reader wants each by itself."""
    sequencer = Sequencer()
    events = sequencer.take(fields("output", offset="0", stream="stdout"), b"out")
    events += sequencer.take(fields("output", offset="3", stream="stderr"), b"err!")
    events += sequencer.take(fields("output", offset="7", stream="stdout"), b"more")

    assert [(e.stream, e.offset, e.data) for e in events if isinstance(e, Output)] == [
        ("stdout", 0, b"out"),
        ("stderr", 0, b"err!"),
        ("stdout", 3, b"more"),
    ]


def test_a_new_attempt_starts_anew_and_the_old_one_is_heard_no_more() -> None:
    """After a recovery the output begins at 0 again; what a zombie still says is dropped."""
    sequencer = Sequencer()
    recovered = messages.encode(OutputEvent(task="t", worker="w2"))
    started = messages.encode(OutputEvent(task="t", worker="w2", at_ms=5))
    events = sequencer.take(fields("output", offset="0", stream="stdout"), b"first")
    events += sequencer.take(fields("recovered", epoch=3, attempt=2), recovered)
    events += sequencer.take(fields("started", epoch=3, attempt=2), started)
    events += sequencer.take(fields("output", offset="5", stream="stdout"), b"zombie")
    events += sequencer.take(
        fields("output", epoch=3, attempt=2, offset="0", stream="stdout"), b"again"
    )

    assert [type(event) for event in events] == [Output, Recovered, Started, Output]
    assert events[-1] == Output(stream="stdout", offset=0, data=b"again", attempt=2)


def test_an_attempt_that_was_not_heard_at_all_is_given_from_the_result() -> None:
    """The result's attempt counts: output of an earlier one does not hide any of it."""
    sequencer = Sequencer()
    sequencer.take(fields("output", offset="0", stream="stdout"), b"first")

    events = sequencer.finish(result(b"again", epoch=3, attempt=2))

    assert written(events) == b"again"


@given(
    st.dictionaries(
        st.sampled_from([headers.EVENT, headers.OFFSET, headers.EPOCH, headers.ATTEMPT]),
        st.text(max_size=5),
    ),
    st.binary(max_size=20),
)
def test_no_message_from_a_stranger_breaks_the_reader(about: dict[str, str], body: bytes) -> None:
    """Anything may stand in a message: it yields events or nothing, never an exception."""
    assert isinstance(Sequencer().take(about, body), list)


def test_a_workspace_that_was_lost_between_two_tasks_is_said_before_the_next_one_runs() -> None:
    """No worker died in this task, and yet it meets an empty workspace."""
    loss = WorkspaceLost(cause="released", epoch=2, at_ms=1)
    body = messages.encode(OutputEvent(task="t", worker="w2", workspace_lost=loss))
    (event,) = Sequencer().take(fields("workspace_lost", epoch=3), body)

    assert isinstance(event, Recovered)
    assert (event.event.interruption, event.event.workspace_lost) == (None, loss)
