"""What a free worker asks before it waits for a bell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from shared.errors import Unavailable
from shared.service import Stop
from worker_agent.core.lanes import Lane
from worker_agent.loops.wait_for_bell import ASKS_MAX, BellWaiter

LANES: tuple[Lane, ...] = tuple(
    (klass, shard) for klass in ("recovery", "batch") for shard in range(3)
)


class FakeQueue:
    """Lanes in memory; shards in `down` do not answer."""

    def __init__(self, **held: list[str]) -> None:
        """Hold messages by lane: `recovery_1=["a", "b"]`."""
        self.held = held
        self.down: set[int] = set()
        self.asked: list[tuple[Lane, bool]] = []
        self.listening = asyncio.Event()

    async def listen(self, _on_bell: Callable[[Lane], None]) -> None:
        """Be one of the idle."""
        self.listening.set()

    async def pull(self, lane: Lane, *, wait: bool) -> str | None:
        """Take the lane's oldest message."""
        self.asked.append((lane, wait))
        if lane[1] in self.down:
            raise Unavailable("no answer")
        held = self.held.get(f"{lane[0]}_{lane[1]}", [])
        return held.pop(0) if held else None


class FakeClaimer:
    """Wins every message but those that are `stale`."""

    async def claim(self, message: str, _waiting_since_ms: float | None) -> str | None:
        """Return what was won."""
        return None if message == "stale" else message


def waiter(queue: FakeQueue) -> BellWaiter:
    """Return a worker's wait over both."""
    lanes: Any = queue
    claimer: Any = FakeClaimer()
    return BellWaiter(lanes, claimer, on_delivery=lambda _: None)


async def test_lanes_are_asked_in_their_order_and_none_is_waited_for() -> None:
    """Nothing is asked beyond the first session won."""
    queue = FakeQueue(recovery_2=["a"], batch_0=["b"])

    held: Any = await waiter(queue).wait(LANES, Stop())

    assert held == "a"
    assert queue.asked == [(lane, False) for lane in LANES[:3]]


async def test_the_only_lane_is_waited_for_a_moment() -> None:
    """A pod that was started for one message may be there before the consumer has it."""
    queue = FakeQueue(batch_1=["a"])

    await waiter(queue).wait([("batch", 1)], Stop())

    assert queue.asked == [(("batch", 1), True)]


async def test_a_token_of_what_is_not_queued_any_more_hides_nothing() -> None:
    """It is dropped, and its lane is asked again before a less urgent one; within a bound."""
    queue = FakeQueue(recovery_0=["stale", "stale", "a"], batch_0=["b"])
    held: Any = await waiter(queue).wait(LANES, Stop())
    assert held == "a"

    queue = FakeQueue(recovery_0=["stale"] * 100, batch_0=["b"])
    held = await waiter(queue).wait(LANES, Stop())
    assert held == "b"
    assert len(queue.held["recovery_0"]) == 100 - ASKS_MAX


async def test_a_shard_that_does_not_answer_is_asked_once() -> None:
    """A worker never waits for a shard: what the others hold is taken."""
    queue = FakeQueue(recovery_0=["a"], batch_0=["b"], batch_1=["c"])
    queue.down = {0}

    held: Any = await waiter(queue).wait(LANES, Stop())

    assert held == "c"
    assert [lane for lane, _ in queue.asked if lane[1] == 0] == [("recovery", 0)]


async def test_with_nothing_there_it_waits_for_a_bell() -> None:
    """And leaves when it is told to."""
    queue, stop = FakeQueue(), Stop()
    waiting = asyncio.create_task(waiter(queue).wait(LANES, stop))
    async with asyncio.timeout(15):
        await queue.listening.wait()
        stop.set("test")
        assert await waiting is None
    assert len(queue.asked) == len(LANES)
