"""The estimate of a wait: what it is made from, that it says when nothing tells it, and that it comes true."""

from __future__ import annotations

import heapq
import random
from statistics import median

import msgspec
import pytest

from pool_manager.core.waits import Flow, Line, ahead_of_interactive, wait_s

NOW = 1000.0


def line(*, ahead: int = 0, warm: int = 0, starting: int = 0, room: int = 10) -> Line:
    """Return what stands before the next activation."""
    return Line(ahead=ahead, warm=warm, starting=starting, room=room, starting_max=4)


def flow(*, start_s: float | None = 2.0, claims_per_s: float = 0.0) -> Flow:
    """Return what was seen lately."""
    made = Flow()
    if start_s is not None:
        made.started(start_s)
    for number in range(20 if claims_per_s else 0):
        made.claimed(NOW - (19 - number) / claims_per_s)
    return made


@pytest.mark.parametrize(
    ("stands", "seen", "expected"),
    [
        (line(warm=1), flow(), 0.0),
        (line(ahead=3, warm=4), flow(start_s=None), 0.0),
        (line(), flow(), 2.0),
        (line(starting=3), flow(), 0.5),
        (line(ahead=5), flow(), 4.0),
        (line(), flow(start_s=None), None),
        (line(room=0), flow(), None),
        (line(room=0), flow(claims_per_s=2.0), 0.5),
        (line(ahead=39, room=0), flow(claims_per_s=2.0), 20.0),
        (line(ahead=39, room=5), flow(claims_per_s=2.0), 20.0),
    ],
    ids=["warm", "warm-behind-others", "started-for-it", "one-of-those-that-start", "second-round",
         "no-start-was-seen", "full-and-nothing-moves", "full", "full-with-a-line", "room-for-a-few"],
)  # fmt: skip
def test_a_wait_is_told_from_who_is_ahead_and_how_fast_pods_come(
    stands: Line, seen: Flow, expected: float | None
) -> None:
    """No wait where a pod is warm for it; a start, or several rounds of them; a session's end where the pool is full."""
    assert wait_s(stands, seen, NOW) == pytest.approx(expected)


def test_where_pods_do_not_start_nobody_is_told_when() -> None:
    """A quota, a node too few: only a pod that is warm already, or a session that ends, is something to count on."""
    held = Line(ahead=0, warm=0, starting=2, room=3, starting_max=4, is_held=True)
    assert wait_s(held, flow(), NOW) is None
    assert wait_s(msgspec.structs.replace(held, warm=1), flow(), NOW) == 0.0
    assert (
        wait_s(msgspec.structs.replace(held, starting=0, room=0), flow(claims_per_s=2.0), NOW)
        == 0.5
    )


def test_a_backlog_of_batch_tasks_is_not_ahead_of_an_interactive_one() -> None:
    """It passes all of it."""
    assert ahead_of_interactive({"batch": 400, "interactive": 2, "recovery": 1}) == 3


def test_claims_of_long_ago_say_nothing_of_how_fast_the_pool_works() -> None:
    """An hour's silence is not a rate of one in an hour: it is not known."""
    seen = flow(claims_per_s=2.0)

    assert wait_s(line(room=0), seen, NOW + 3600) is None


def test_what_a_full_pool_says_to_those_who_come_is_what_they_wait() -> None:
    """Six pods at most, sessions of about 4 s, and half as many more come than can be served: most waits are within a third."""
    draws, seen, pods_max, start_s = random.Random(5), Flow(), 6, 1.0
    free_at = [0.0] * pods_max  # when each place's next pod is warm
    heapq.heapify(free_at)
    begins: list[float] = []
    told: list[tuple[float, float]] = []
    claims: list[float] = []
    at = 0.0
    seen.started(start_s)
    for _ in range(400):
        at += draws.expovariate(1.5 * pods_max / 5.0)
        while claims and claims[0] <= at:
            seen.claimed(heapq.heappop(claims))
        ahead = sum(begin > at for begin in begins)
        warm = sum(free <= at for free in free_at)
        estimate = wait_s(Line(ahead, warm, 0, 0, 4), seen, at)
        begin = max(at, heapq.heappop(free_at))
        heapq.heappush(free_at, begin + draws.uniform(3.0, 5.0) + start_s)
        heapq.heappush(claims, begin)
        begins.append(begin)
        if estimate is not None and begin - at > 5.0:
            told.append((estimate, begin - at))

    assert len(told) > 200
    assert median(estimate / waited for estimate, waited in told) == pytest.approx(1.0, abs=0.2)
    near = sum(2 / 3 < estimate / waited < 3 / 2 for estimate, waited in told)
    assert near > 0.8 * len(told)
