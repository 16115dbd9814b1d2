"""Which positions a reader may come back with, as far as servers know."""

from __future__ import annotations

from typing import Any, cast

import pytest

from agent_sandbox.over_nats.replay import check_position
from agent_sandbox.positions import Position
from shared import messages
from shared.bus import Message
from shared.errors import InvalidMessage, NotFound
from shared.messages import Stream, TaskResult
from shared.record import Record
from shared.views import SessionAnswer

TASK = "task-0001"
NAMES = ("t", TASK, TASK)
RESULT = TaskResult(
    task=TASK, session=TASK, tenant="t", status="ok", epoch=1, attempt=1, stdout=Stream(size=2)
)
CLOSED = Record(
    session=TASK, tenant="t", pool="p", state="closed", lane="interactive", client_lane="interactive",
    keep=False, accepted_ms=1, epoch=1,
)  # fmt: skip
TOO_FAR = Position(1, 1, 9, 700, 0)


class BehindBus:
    """Its server hears of the result with the nth question for it."""

    def __init__(self, answer: SessionAnswer, behind: int) -> None:
        """Have `answer` for whoever asks for the session."""
        self.asked = 0
        self._answer = answer
        self._behind = behind

    async def read_result(self, *_: Any, **__: Any) -> bytes | None:
        """Read."""
        self.asked += 1
        return messages.encode(RESULT) if self.asked > self._behind else None

    async def request(self, *_: Any, **__: Any) -> Message:
        """Answer."""
        return Message("", messages.encode(self._answer), {})


async def check(bus: BehindBus, position: Position) -> None:
    """Look at a position through a bus."""
    await check_position(cast("Any", bus), NAMES, position)


async def test_a_server_that_is_behind_lets_no_position_pass_that_the_task_never_came_to() -> None:
    """Its reader would wait for output that nobody will ever have."""
    with pytest.raises(InvalidMessage, match="wrote 2 and 0 bytes"):
        await check(BehindBus(SessionAnswer(record=CLOSED), behind=2), TOO_FAR)


async def test_a_task_whose_end_is_not_known_at_once_is_there_all_the_same() -> None:
    """Its record may have gone already; of one that has neither there is nothing."""
    await check(BehindBus(SessionAnswer(), behind=1), Position(1, 1, 1, 1, 0))
    with pytest.raises(NotFound):
        await check(BehindBus(SessionAnswer(), behind=99), Position(1, 1, 1, 1, 0))


async def test_of_a_task_that_runs_no_end_is_waited_for() -> None:
    """Its reader goes on at once."""
    bus = BehindBus(SessionAnswer(record=CLOSED, task=TASK), behind=99)
    await check(bus, TOO_FAR)
    assert bus.asked == 1
