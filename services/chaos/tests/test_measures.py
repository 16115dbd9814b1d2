"""Figures come from the history alone: who was hit, when each went on, and where the time went."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from chaos.core.hits import PARTS
from chaos.core.measure import measure
from chaos.core.report.data import conclude
from chaos.core.report.page import page
from chaos.core.rows import Accepted, Effect, Header, Nemesis, Op
from chaos.core.stats import longest_gap, spread
from chaos.testing.made import Made
from shared.percentiles import percentile


def test_a_hit_in_mid_task_is_followed_through_its_six_parts() -> None:
    """Their sum is the time to recover."""
    made = Made()
    made.turn()
    op = made.invoke()
    made.work(op, upto=1)
    at_s = made.lose_owner()
    made.work(op)
    made.finish(op)

    measured = measure(made.close())

    (impact,) = measured.impacts
    (hit,) = impact.hits
    result_s = next(
        row.time
        for row in reversed(made.rows)
        if type(row).__name__ == "Stored" and row.task == op.task
    )
    assert (impact.hit, impact.in_task, impact.asked, impact.idle) == (1, 1, 0, 0)
    assert hit.parts is not None
    assert len(hit.parts) == len(PARTS)
    assert sum(hit.parts) == pytest.approx(hit.recover_s)
    assert hit.recover_s == pytest.approx(result_s - at_s)
    assert hit.detect_s == pytest.approx(0.401)
    assert hit.parts[0] == pytest.approx(0.3)
    assert all(part > 0 for part in hit.parts)
    assert impact.redo == pytest.approx(1 / 3)  # one step of three was done again


def test_an_idle_session_that_was_hit_counts_by_its_new_owner() -> None:
    """Nobody waited for it: it has no time to recover."""
    made = Made()
    made.turn()
    made.lose_owner()
    made.tick(30)
    made.turn()

    (impact,) = measure(made.close()).impacts

    assert (impact.in_task, impact.asked, impact.idle) == (0, 0, 1)
    assert impact.recover.count == 0
    assert impact.home.max == pytest.approx(0.602)
    assert impact.not_recovered == 0


def test_a_turn_asked_for_in_the_outage_counts_from_the_fault() -> None:
    """Its user waits for the recovery as well."""
    made = Made()
    made.turn()
    at_s = made.fence()
    op = made.invoke()
    made.claim()
    made.work(op)
    made.finish(op)

    (impact,) = measure(made.close()).impacts

    assert impact.asked == 1
    assert impact.recover.count == 1
    assert impact.recover.max is not None
    assert impact.recover.max > op.time - at_s


def test_an_owner_that_nobody_fenced_and_that_goes_on_recovers_when_it_does() -> None:
    """It stood still for its user; what it had stored just before the fault, and is heard after it, did not."""
    for fault, late_s, asked, recovered in (
        ("nodes-stopped", 20.0, 0, 1),
        ("nodes-stopped", 0.2, 0, 0),
        ("lossy-network", 20.0, 0, 0),
        ("nodes-stopped", 0.2, 1, 1),
    ):
        made = Made()
        op = made.invoke()
        made.work(op)
        at_s = made.tick()
        made.rows.append(Nemesis(time=at_s, type="inject", fault=fault, targets=(made.node,)))
        made.tick(late_s)
        result_s = made.now + 0.1
        made.finish(op)
        if asked:
            op = made.invoke()
            made.tick(20)
            made.work(op)
            result_s = made.now + 0.1
            made.finish(op)

        (impact,) = measure(made.close()).impacts

        assert (impact.in_task, impact.asked) == (recovered - asked, asked)
        assert impact.idle == 1 - recovered
        assert impact.not_recovered == 0
        if recovered:
            assert impact.recover.max == pytest.approx(result_s - at_s)


def test_of_a_long_turn_that_goes_on_the_first_step_counts() -> None:
    """As under a new owner: its result comes minutes later."""
    made = Made()
    op = made.invoke(steps=8, kind="long")
    made.work(op, upto=2)
    at_s = made.tick()
    made.rows.append(Nemesis(time=at_s, type="inject", fault="nodes-stopped", targets=(made.node,)))
    made.tick(20)
    made.rows.append(
        Effect(time=made.now, session=op.session, task=op.task, step=2, epoch=made.epoch)
    )
    made.tick(60)
    made.finish(op)

    (impact,) = measure(made.close()).impacts

    assert impact.recover.max == pytest.approx(20)


def test_a_session_elsewhere_is_not_hit() -> None:
    """The fault had other targets."""
    made = Made()
    made.turn()
    made.lose_owner(targets=("node-7",))

    (impact,) = measure(made.close()).impacts

    assert impact.hit == 0


def test_a_call_that_took_over_thirty_seconds_is_an_error() -> None:
    """Though it ended well."""
    made = Made()
    op = made.invoke()
    made.work(op)
    made.tick(31)
    made.finish(op)

    measured = measure(made.close())

    assert measured.users_with_error == 1
    assert "1-0" in measured.errors[0]


def test_the_gap_between_pubacks_is_taken_over_the_leaders_fault() -> None:
    """From its neighbours, wherever the fault lies between them."""
    made = Made()
    made.turn()
    for _ in range(5):
        made.rows.append(Accepted(time=made.tick(0.1), session="o", task="o", is_once=True))
    made.lose_owner("queue-leader-killed", targets=("server-1",))
    made.rows.append(Accepted(time=made.tick(0.4), session="o", task="o", is_once=True))

    findings = conclude(made.close())

    # From the last one before the kill to the first one after it.
    acks = [row.time for row in made.rows if isinstance(row, Accepted) and row.is_once]
    assert findings.figures["queue_gap_s"] == pytest.approx(acks[-1] - acks[-2], abs=1e-3)


def test_a_queue_that_takes_nothing_any_more_has_a_gap_up_to_the_last_that_was_sent() -> None:
    """No PubAck after the kill is the worst case, not none."""
    made = Made()
    made.turn()
    made.rows.append(Accepted(time=made.tick(), session="o", task="o", is_once=True))
    acked_s = made.now
    made.lose_owner("queue-leader-killed", targets=("server-1",))
    op = made.invoke()
    asked = replace(op, f="once", session="p", task="p", time=made.tick(5))
    made.rows = [row for row in made.rows if getattr(row, "task", "") != op.task]
    made.rows.append(asked)

    findings = conclude(made.close())

    assert findings.figures["queue_gap_s"] == pytest.approx(asked.time - acked_s, abs=1e-3)
    assert "queue_gap_s" in findings.missed()


def test_where_one_shots_are_few_the_acknowledgements_of_sessions_tasks_count_as_well() -> None:
    """Else the gap would be that between two of them."""
    made = Made()
    assert isinstance(made.rows[0], Header)
    made.rows[0] = replace(made.rows[0], settings=made.rows[0].settings | {"one_shots_per_s": 0.5})
    made.rows.append(Accepted(time=made.tick(), session="o", task="o", is_once=True))
    made.lose_owner("queue-leader-killed", targets=("server-1",))
    for _ in range(5):
        made.turn()
    made.rows.append(Accepted(time=made.tick(), session="o", task="p", is_once=True))

    findings = conclude(made.close())

    assert findings.figures["queue_gap_s"] < 1.5


def test_recoveries_are_told_by_class() -> None:
    """Interactive tasks are to come first: both are shown."""
    made = Made()
    made.turn()
    op = made.invoke()
    made.replace(op, replace(op, klass="batch"))
    made.lose_owner()
    made.work(op)
    made.finish(op)
    history = made.close()

    (impact,) = measure(history).impacts

    assert impact.by_class == {"batch": impact.recover}
    assert "; batch (1): " in page(conclude(history))


def test_an_owner_that_is_never_fenced_counts_up_to_the_end_of_the_run() -> None:
    """It is the slowest to be detected, not none at all; where it gave the session up or lost nothing, none has to be."""
    for fault, state, count in (
        ("nodes-killed", "running", 1),
        ("nodes-killed", "idle", 0),
        ("lossy-network", "running", 0),
    ):
        made = Made()
        made.turn()
        at_s = made.tick()
        hit = Nemesis(time=at_s, type="inject", fault=fault, targets=(made.node,))
        made.rows.append(hit)
        made.tick(60)
        made.version(state)
        history = made.close()

        (impact,) = measure(history).impacts

        assert impact.detect.count == count
        if count:
            assert impact.detect.p95 == pytest.approx(history.end_s - at_s)


def test_the_page_holds_all_pictures_and_needs_nothing_else() -> None:
    """One file that can be sent to somebody."""
    made = Made()
    made.turn()
    op = made.invoke()
    made.lose_owner()
    made.work(op)
    made.finish(op)

    text = page(conclude(made.close()))

    assert text.count("<svg") == 7
    assert "http" not in text.replace("http-equiv", "")
    assert 'class="verdict true"' in text


def test_a_user_of_a_hostile_name_cannot_write_into_the_page() -> None:
    """Errors are shown as they were told."""
    made = Made()
    op = made.invoke()
    made.end(op, "info", error="<script>alert(1)</script>")

    assert "<script>" not in page(conclude(made.close()))


def test_percentiles_are_of_the_values_themselves() -> None:
    """Nearest rank: nothing between two values is made up."""
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([1.0, 2.0], 95) == 2.0
    assert spread([None, 4.0]).count == 1
    assert spread([]).p50 is None
    assert longest_gap([1.0, 2.0, 5.0], 0.0, 6.0) == 3.0
    assert longest_gap([1.0, 2.0, 5.0], 4.0, 5.5) == 3.0  # it had begun before
    assert longest_gap([], 0.0, 6.0) == 6.0


def test_the_rows_of_a_made_history_are_what_the_checkers_read() -> None:
    """The kit makes real rows."""
    made = Made()
    made.turn()

    assert [row.type for row in made.rows if isinstance(row, Op)] == ["invoke", "ok"]
