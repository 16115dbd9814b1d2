"""What has no result stays where it is: a refusal of the store alone proves nothing."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from pool_manager.core import ends
from pool_manager.core.world import Bounds, World
from pool_manager.loops import expire
from pool_manager.loops.entries import end_entry
from pool_manager.ports import Known, LaneMessage
from shared.errors import Conflict
from shared.messages import TaskResult
from shared.record import Record

WHO = ("acme", "session-0001", "task-0001")
RESULT = ends.result_without_record(WHO, ends.EXPIRED, now_ms=1)
SESSION = "0192f0c4-0000-7000-8000-000000000001"


class RefusingTruth:
    """Refuses each write for another one that is under way; what is there is what can be read."""

    def __init__(self, *, there: TaskResult | None = None) -> None:
        """Hold a result, or nothing."""
        self.there = there
        self.removed: list[int] = []
        self.records: list[Known] = []

    async def put_result(self, _result: TaskResult) -> None:
        """Refuse."""
        raise Conflict("another write is under way")

    async def end(self, *_: Any) -> int:
        """Likewise."""
        raise Conflict("another write is under way")

    async def result(self, *_: Any) -> TaskResult | None:
        """Read the result."""
        return self.there

    async def read(self, *_: Any) -> Known | None:
        """There is no record."""
        return None

    async def remove_entry(self, _shard: int, seq: int) -> None:
        """Note it."""
        self.removed.append(seq)

    async def purge_results(self, *_: Any) -> int:
        """Nothing."""
        return 0

    async def next_record(self, _shard: int, after_seq: int) -> Known | None:
        """Return the next."""
        return next((known for known in self.records if known.seq > after_seq), None)

    async def remove_record(self, record: Record) -> None:
        """Note it."""
        self.records = [known for known in self.records if known.record.session != record.session]


async def test_an_entry_without_a_result_stays() -> None:
    """The write that it lost against may be lost as well: then nothing else holds the task."""
    truth: Any = RefusingTruth()

    with pytest.raises(Conflict):
        await end_entry(truth, 7, RESULT)

    assert truth.removed == []


async def test_an_entry_whose_task_has_its_result_goes() -> None:
    """Somebody was faster."""
    truth: Any = RefusingTruth(there=RESULT)

    assert not await end_entry(truth, 7, RESULT)
    assert truth.removed == [7]


class OneMessage:
    """A lane with one overdue message."""

    def __init__(self) -> None:
        """Hold it."""
        self.removed: list[int] = []

    async def counts(self, _shard: int) -> dict[tuple[str, str], int]:
        """Count it."""
        return {("default", "batch"): 1}

    async def next_message(
        self, shard: int, pool: str, klass: str, after_seq: int
    ) -> LaneMessage | None:
        """Return it."""
        if after_seq >= 9:
            return None
        return LaneMessage(shard, "acme", pool, klass, 9, 1000, b'{"deadline_s": 1}', None, SESSION)

    async def remove(self, _shard: int, seq: int) -> None:
        """Note it."""
        self.removed.append(seq)


@pytest.mark.parametrize("there", [None, RESULT])
async def test_an_overdue_message_that_nothing_else_holds_stays_in_its_lane(
    there: TaskResult | None,
) -> None:
    """Removed, it would have had no result; with one, it goes."""
    truth: Any = RefusingTruth(there=there)
    queue: Any = OneMessage()
    expirer = expire.Expirer(_world(), truth, queue)

    await expirer._look_into(0)

    assert queue.removed == ([9] if there else [])


async def test_old_records_that_are_many_are_removed_one_portion_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One portion in ten minutes would not keep up with those who publish."""
    monkeypatch.setattr(expire, "REMOVE_AT_ONCE", 2)
    truth, queue = RefusingTruth(), OneMessage()
    record = Record(
        session="s", tenant="t", pool="p", state="closed", lane="batch", client_lane="batch", keep=False, accepted_ms=1
    )  # fmt: skip
    truth.records = [
        Known(replace(record, session=f"session-{seq}"), seq, 1000) for seq in (1, 2, 3)
    ]
    anything: Any = truth
    lanes: Any = queue
    expirer = expire.Expirer(_world(), anything, lanes)

    assert await expirer.remove_old(0), "more are left"
    assert len(truth.records) == 1
    assert not await expirer.remove_old(0)
    assert truth.records == []


def _world() -> World:
    return World("pm-1", (), Bounds(1.5, 4.0, 0.3), time.monotonic())
