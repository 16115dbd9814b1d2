"""What waits: sessions whose token may be lost, and messages whose deadline passes."""

from __future__ import annotations

import pytest

from pool_manager.core.backlog import TRACKED_MAX, Backlog, Waiting, deadline_ms, task_of
from pool_manager.core.table import Table
from pool_manager.core.tokens import Tokens, message_id
from shared.ids import home, task_id_of_delivery
from shared.record import Origin, Record


def queued(table: Table, *, seq: int = 5, now: float = 10.0, epoch: int = 1) -> None:
    """Put a queued session into the table, stored at 50,000 ms."""
    record = Record(
        session="session-1",
        tenant="t",
        pool="p",
        state="queued",
        lane="batch",
        client_lane="batch",
        keep=True,
        accepted_ms=1,
        epoch=epoch,
    )
    table.apply(record, seq, now=now, stored_ms=50_000)


def test_a_backlog_is_no_lost_token() -> None:
    """As long as something older waits in the lane, the token waits its turn."""
    table, tokens = Table(), Tokens()
    queued(table)

    assert tokens.due(table.queued, 11.9) == []
    (row,) = tokens.due(table.queued, 12.1)

    assert not tokens.is_lost(row, 40_000)
    assert not tokens.is_lost(row, 50_100)  # perhaps the token itself
    assert tokens.is_lost(row, 52_000)
    assert tokens.is_lost(row, None)


def test_each_further_token_waits_longer() -> None:
    """2 s, then 4, 8, … up to a bound; a new write of the record begins anew."""
    table, tokens = Table(), Tokens()
    queued(table)
    now, waits = 12.0, []
    for _ in range(6):
        (row,) = tokens.due(table.queued, now)
        tokens.sent(row, now=now, wall_ms=1)
        began = now
        while not tokens.due(table.queued, now):
            now += 0.5
        waits.append(now - began)

    assert waits == [4, 8, 16, 30, 30, 30]
    queued(table, seq=6, now=now, epoch=2)
    assert tokens.due(table.queued, now + 1) == tokens.due(table.queued, now) == []


def test_a_tokens_id_is_one_for_each_write_and_each_two_seconds() -> None:
    """Two pool-managers that send the same token send it once."""
    assert message_id("s", 7) == "s:7"
    assert message_id("s", 7, 4_000) == message_id("s", 7, 5_999) == "s:7:2"
    assert message_id("s", 7, 6_000) == "s:7:3"


# --- backlog ---------------------------------------------------------------------------------------------------------


def waiting(seq: int, due_ms: int) -> Waiting:
    """Return a waiting message."""
    origin = Origin(session=f"session-{seq}", tenant="t", pool="p", lane="batch", accepted_ms=1)
    return Waiting(seq, origin, due_ms)


def test_each_message_is_read_once_and_forgotten_when_it_left() -> None:
    """The oldest ones of the lane are tracked."""
    backlog = Backlog()
    for seq in range(1, 5):
        backlog.read(seq, waiting(seq, seq * 1000) if seq != 2 else None)

    assert [w.seq for w in backlog.overdue(3000)] == [1, 3]
    backlog.begins_at(3)
    assert backlog.cursor == 4
    assert [w.seq for w in backlog.overdue(9000)] == [3, 4]
    backlog.done(3)
    assert [w.seq for w in backlog.overdue(9000)] == [4]
    for seq in range(10, 10 + TRACKED_MAX):
        backlog.read(seq, waiting(seq, 1))
    assert backlog.is_full


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        (b'{"kind":"open","deadline_s":2.5}', 2.5),
        (b'{"kind":"open"}', 24 * 3600),
        (b'{"deadline_s":1e12}', 24 * 3600),
        (b'{"deadline_s":-1}', 0),
        (b'{"deadline_s":"soon"}', 24 * 3600),
        (b"\xff not json", 24 * 3600),
        (b"[" * 100_000, 24 * 3600),
    ],
)
def test_a_deadline_is_read_from_whatever_body(body: bytes, seconds: float) -> None:
    """What cannot be read has the longest time: its puller will say what is wrong with it."""
    assert deadline_ms(body, 1000) == 1000 + int(seconds * 1000)


def test_a_message_without_a_usable_id_has_the_id_of_its_delivery() -> None:
    """As every puller derives it."""
    assert task_of("some-task-id", 1, 77) == "some-task-id"
    assert task_of("a b", 1, 77) == task_of(None, 1, 77) == task_id_of_delivery(1, 77)
    assert home(task_of(None, 1, 77)) == 1
