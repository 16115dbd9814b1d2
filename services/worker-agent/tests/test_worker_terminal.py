"""What is typed into a terminal, as its worker judges it, and how fast a flood is shown."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from holding import ORIGIN
from hypothesis import given
from hypothesis import strategies as st

from shared import headers, limits
from shared.bus import Bus
from shared.errors import InvalidMessage
from shared.transitions import create
from worker_agent.adapters.voice import CoreVoice
from worker_agent.core.terminal import InputBook, Keys, Pace, Quiet, read_keys

ROOM = 1 << 20


class SilentBus:
    """Takes all that is published."""

    async def publish(self, *_args: Any, **_named: Any) -> None:
        """Nobody hears it."""


def keys(writer: str, offset: int, data: bytes) -> Keys:
    """Return a message."""
    return Keys(writer, offset, data)


@given(
    st.binary(max_size=60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 40)), max_size=40),
)
def test_bytes_are_typed_once_and_in_order_whatever_is_sent(
    text: bytes, sent: list[tuple[int, int, int]]
) -> None:
    """Pieces come late, twice, out of turn, and find any room: what is typed is a beginning of the text."""
    book, typed = InputBook(), b""
    for start, length, room in sent:
        answer = book.take(keys("w", start, text[start : start + length]), room)
        typed += answer.take
        assert len(answer.take) <= room
        if not answer.forgotten:
            assert answer.next == len(typed)

    assert typed == text[: len(typed)]


def test_what_was_lost_is_asked_for_again_and_what_came_twice_is_dropped() -> None:
    """A hole stops its writer where it is; its copy fills it."""
    book = InputBook()

    assert book.take(keys("w", 0, b"ab"), ROOM).take == b"ab"
    late = book.take(keys("w", 4, b"ef"), ROOM)
    assert (late.take, late.next) == (b"", 2)
    assert book.take(keys("w", 0, b"ab"), ROOM).take == b""
    assert book.take(keys("w", 1, b"bcd"), ROOM).take == b"cd"
    assert book.take(keys("w", 4, b"ef"), ROOM).take == b"ef"


def test_writers_have_numbers_of_their_own() -> None:
    """Who attaches again begins anew, and an old window may go on."""
    book = InputBook()

    assert book.take(keys("first", 0, b"a"), ROOM).take == b"a"
    assert book.take(keys("second", 0, b"b"), ROOM).take == b"b"
    assert book.take(keys("first", 1, b"c"), ROOM).take == b"c"
    unknown = book.take(keys("third", 5, b"d"), ROOM)
    assert (unknown.take, unknown.forgotten) == (b"", True)
    assert book.take(Keys(""), ROOM).take == b""


def test_of_too_many_writers_the_most_silent_is_forgotten() -> None:
    """It is told so; the others go on."""
    book = InputBook()
    for number in range(limits.TERMINAL_WRITERS_MAX + 1):
        book.take(keys(f"w{number}", 0, b"x"), ROOM)

    assert book.take(keys("w0", 1, b"y"), ROOM).forgotten
    assert book.take(keys("w1", 1, b"y"), ROOM).take == b"y"


def test_a_flood_is_shown_at_its_pace() -> None:
    """All of the burst at once, then the rate; who was silent for long has the burst again, and no more."""
    pace = Pace(0.0, burst_bytes=1000, bytes_per_s=100)

    assert pace.wait_s(1000, 0.0) == 0.0
    assert pace.wait_s(50, 0.0) == 0.5
    assert pace.wait_s(50, 0.5) == 0.5
    assert pace.wait_s(10, 1000.0) == 0.0
    assert pace.wait_s(1090, 1000.0) == 1.0


def test_a_terminal_is_left_alone_when_nothing_was_said_or_shown_for_long() -> None:
    """Whatever happens begins the time anew."""
    quiet = Quiet(60.0, 100.0)

    assert (quiet.left_s(100.0), quiet.left_s(159.0), quiet.left_s(300.0)) == (60.0, 1.0, 0.0)
    quiet.broken(159.0)
    assert (quiet.left_s(160.0), quiet.left_s(219.0)) == (59.0, 0.0)


@pytest.mark.parametrize(
    ("fields", "data", "named"),
    [
        ({}, b"x", headers.WRITER),
        ({headers.WRITER: "w" * 65}, b"", headers.WRITER),
        ({headers.WRITER: "w", headers.OFFSET: "-1"}, b"", headers.OFFSET),
        ({headers.WRITER: "w", headers.OFFSET: "9" * 19}, b"", headers.OFFSET),
        ({headers.WRITER: "w", headers.OFFSET: "²"}, b"", headers.OFFSET),
        ({headers.WRITER: "w"}, b"x" * (limits.TERMINAL_INPUT_BYTES_MAX + 1), "body"),
        ({headers.SIZE: "0 80"}, b"", headers.SIZE),
        ({headers.SIZE: f"24 {limits.TERMINAL_SIDE_MAX + 1}"}, b"", headers.SIZE),
        ({headers.SIZE: "24"}, b"", headers.SIZE),
        ({headers.SIZE: "24 80 1"}, b"", headers.SIZE),
    ],
)
def test_a_message_out_of_bounds_is_refused_by_its_field(
    fields: dict[str, Any], data: bytes, named: str
) -> None:
    """Clients are not ours."""
    with pytest.raises(InvalidMessage, match=named):
        read_keys(fields, data)


def test_a_message_is_read() -> None:
    """Keys, a size and a hang-up may come together."""
    fields = {
        headers.WRITER: "w",
        headers.OFFSET: "3",
        headers.SIZE: "50 132",
        headers.HANG_UP: "1",
    }

    assert read_keys(fields, b"x") == Keys("w", 3, b"x", (50, 132), True)


async def test_a_terminal_that_has_shown_nothing_says_so_whatever_ran_before() -> None:
    """Who sits down before its first message begins with that, not behind as many as the task before it sent."""
    bus = cast("Bus", SilentBus())
    voice = CoreVoice(bus, "w-1")
    record = create(ORIGIN, owner="w-1", node="n-1", now_ms=1)
    await voice.event(record, "task-one", "started")
    await voice.event(record, "task-one", "progress")

    assert voice.said(record, "task-one") == 2
    assert voice.said(record, "task-two") == 0
    again = msgspec.structs.replace(record, epoch=record.epoch + 1)
    assert voice.said(again, "task-one") == 0
    await voice.event(record, "task-two", "started")
    assert voice.said(record, "task-two") == 1
