"""What a fault does to those whom it does not hit, and to the pool's stock, comes from the history as well."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from chaos.core.measure import measure
from chaos.core.rows import Gauge, Header, Nemesis
from chaos.testing.made import Made

STOCK = 20
POOL = "chaos"


def run_with(*positions: tuple[float, int], turn_s: float = 0.5) -> Made:
    """Return a run with a turn before a fault and one within it, and the pool's position at moments after the fault."""
    made = Made()
    header = made.rows[0]
    assert isinstance(header, Header)
    made.rows[0] = replace(header, settings=header.settings | {"stock": STOCK})
    made.turn()
    at_s = made.tick()
    made.rows.append(Nemesis(time=at_s, type="inject", fault="pool-manager-killed", targets=("m",)))
    op = made.invoke()
    made.tick(turn_s)
    made.work(op)
    made.finish(op)
    made.rows += [
        Gauge(time=at_s + after_s, pools={POOL: (position - 1, 1, 3)})
        for after_s, position in positions
    ]
    return made


def test_a_stock_is_back_when_as_many_wait_or_start_as_it_says() -> None:
    """Not when the first of them starts; and one that never fell was never gone."""
    for positions, restock_s, over in (
        (((2.0, 5), (4.0, 12), (6.0, 20)), 6.0, 0.0),
        (((2.0, 20), (4.0, 19)), 0.0, 0.0),
        (((2.0, 5), (4.0, 6)), None, 0.0),
        (((2.0, 20), (4.0, 23)), 0.0, 0.15),
    ):
        made = run_with(*positions)
        made.tick(10)

        (impact,) = measure(made.close()).impacts

        assert impact.around.restock_s == (None if restock_s is None else pytest.approx(restock_s))
        assert impact.around.over_share == pytest.approx(over)


def test_the_longest_turn_within_a_fault_is_compared_with_the_longest_before() -> None:
    """Also one that has no end: it is late up to the end of the run."""
    made = run_with(turn_s=5.0)
    (impact,) = measure(made.close()).impacts
    assert impact.around.delay_max_s == pytest.approx(5.0)
    assert impact.around.turn_p99_ratio == pytest.approx(1 + 5.0 / 0.601, rel=0.01)

    made = run_with()
    made.invoke()
    made.tick(30)
    (impact,) = measure(made.close()).impacts
    assert impact.around.delay_max_s is not None
    assert impact.around.delay_max_s > 29


def test_what_was_under_way_at_the_healing_settles_when_its_last_turn_ends() -> None:
    """Counted from the healing."""
    made = run_with()
    op = made.invoke()
    made.rows.append(Nemesis(time=made.tick(), type="heal", fault="pool-manager-killed"))
    healed_s = made.now
    made.tick(7)
    made.work(op)
    end = made.finish(op)

    (impact,) = measure(made.close()).impacts

    assert impact.around.settled_s == pytest.approx(end.time - healed_s)


def test_a_session_that_never_goes_on_is_the_slowest_to_recover_not_none() -> None:
    """A fault from which nobody recovers must not have the best figures."""
    made = Made()
    made.turn()
    made.invoke()
    at_s = made.lose_owner()
    made.tick(90)
    history = made.close()

    (impact,) = measure(history).impacts

    assert impact.not_recovered == 1
    assert impact.recover.max == pytest.approx(history.end_s - at_s)


def test_a_task_whose_result_was_stored_by_its_old_owner_did_not_wait_for_a_new_one() -> None:
    """It was heard a moment after the fault: the session was idle by then."""
    made = Made()
    made.turn()
    op = made.invoke()
    made.work(op)
    at_s = made.tick()
    made.rows.append(Nemesis(time=at_s, type="inject", fault="nodes-killed", targets=(made.node,)))
    made.finish(op)
    made.epoch += 1
    made.version("queued")
    made.claim()

    (impact,) = measure(made.close()).impacts

    assert (impact.in_task, impact.idle, impact.recover.count) == (0, 1, 0)
