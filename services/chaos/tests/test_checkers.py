"""Each checker finds what it is there for in a history made by hand, and nothing in a clean one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from chaos.core.check.book import ZERO, Kind
from chaos.core.rows import Effect, Footer, Nemesis, Op, Seen, Stored
from chaos.core.verdict import judge
from chaos.testing.made import SID, Made


def a_run() -> Made:
    """Five turns, with the loss of an owner in the middle of the third."""
    made = Made()
    made.turn()
    made.turn()
    op = made.invoke()
    made.work(op, upto=1)
    made.lose_owner()
    made.work(op)
    made.finish(op)
    made.turn()
    made.turn()
    return made


def last(made: Made, kind: type, nth: int = -1) -> object:
    """Return the last (or another) row of a kind."""
    return [row for row in made.rows if type(row) is kind][nth]


def ok(made: Made, nth: int = -1) -> Op:
    """Return an acknowledged turn."""
    return [row for row in made.rows if isinstance(row, Op) and row.type == "ok"][nth]


def lose_a_turn(made: Made) -> None:
    """An acknowledged turn is missing at the end."""
    made.journal = made.journal[:2] + made.journal[4:]


def lose_the_newest(made: Made) -> None:
    """The journal ends before what was acknowledged last."""
    made.journal = made.journal[:-2]


def do_twice(made: Made) -> None:
    """A turn stands twice in the journal."""
    made.journal += made.journal[-2:]


def store_two_results(made: Made) -> None:
    """A task has two results."""
    stored = last(made, Stored)
    assert isinstance(stored, Stored)
    made.rows.append(replace(stored, at=(0, stored.at[1] + 50)))


def run_after_the_result(made: Made) -> None:
    """A task runs again under a later epoch than its result's."""
    effect = last(made, Effect)
    assert isinstance(effect, Effect)
    made.rows.append(replace(effect, epoch=effect.epoch + 1))


def fork_a_read(made: Made) -> None:
    """A client saw a journal that the final one does not begin with."""
    row = ok(made, 1)
    assert row.seen is not None
    made.replace(row, replace(row, seen=Seen(length=row.seen.length, chain="0123456789abcdef")))


def leave_half_a_turn(made: Made) -> None:
    """A turn of unknown outcome stands in the journal by half."""
    op = made.invoke()
    made.journal.append(f"{op.token}.0")
    made.end(op, "info", error="no answer")
    made.rows.append(
        Stored(
            time=made.tick(),
            at=(0, made.seq + 20),
            session=SID,
            task=op.task,
            status="expired",
            epoch=0,
        )
    )


def keep_what_was_refused(made: Made) -> None:
    """A turn that was refused stands in the journal all the same."""
    op = made.invoke()
    made.journal += [f"{op.token}.0", f"{op.token}.1"]
    made.end(op, "fail", error="refused")


def own_an_epoch_twice(made: Made) -> None:
    """Two workers own one epoch."""
    made.version("running", owner="another")


def read_an_old_state(made: Made) -> None:
    """A turn does not see what was acknowledged before it began."""
    row = ok(made)
    made.replace(row, replace(row, seen=Seen(length=2, chain="")))


def commit_under_an_old_epoch(made: Made) -> None:
    """A revoked owner's result is stored after its epoch was revoked."""
    stored = last(made, Stored)
    assert isinstance(stored, Stored)
    made.replace(stored, replace(stored, epoch=1, worker="w1"))


def go_back_to_an_old_epoch(made: Made) -> None:
    """A record goes back to an epoch that was revoked."""
    made.version("running", epoch=1)


def forget_a_task(made: Made) -> None:
    """An accepted task never gets an end, and its client gives up."""
    op = made.invoke()
    made.end(op, "info", error="no result within 180 s")


def refuse_an_accepted_task(made: Made) -> None:
    """Its client is told that it surely was not done, and no stream holds that end."""
    op = made.invoke()
    made.end(op, "fail", error="no such session")


def swap_turns(made: Made) -> None:
    """Two turns stand the other way round than their client did them."""
    made.journal = made.journal[2:4] + made.journal[:2] + made.journal[4:]


def lose_a_workspace(made: Made) -> None:
    """A record says that the workspace is gone."""
    made.version("running", is_lost=True)


def break_a_promise(made: Made) -> None:
    """A fault looks at what it did itself, and it is not as promised."""
    row = Nemesis(time=made.tick(), type="failed", fault="poison-task", detail="it ended ok")
    made.rows.append(row)


SPOILED: list[tuple[Callable[[Made], None], Kind]] = [
    (lose_a_turn, "lost"),
    (lose_the_newest, "lost"),
    (lose_a_workspace, "lost"),
    (do_twice, "dup"),
    (store_two_results, "dup"),
    (run_after_the_result, "dup"),
    (fork_a_read, "fork"),
    (leave_half_a_turn, "fork"),
    (keep_what_was_refused, "fork"),
    (own_an_epoch_twice, "fork"),
    (read_an_old_state, "stale"),
    (commit_under_an_old_epoch, "zombie"),
    (go_back_to_an_old_epoch, "zombie"),
    (forget_a_task, "conserve"),
    (refuse_an_accepted_task, "conserve"),
    (swap_turns, "order"),
    (break_a_promise, "broken"),
]


def test_a_clean_history_is_true() -> None:
    """The loss of an owner in mid-task, and the rerun, are nothing that must not be."""
    verdict = judge(a_run().close())

    assert verdict.verdict == "true", verdict
    assert verdict.looked_at["appends"] == 5
    assert verdict.looked_at["fences"] == 1


@pytest.mark.parametrize(
    ("spoil", "kind"), SPOILED, ids=lambda value: getattr(value, "__name__", value)
)
def test_what_must_not_be_is_found(spoil: Callable[[Made], None], kind: Kind) -> None:
    """By the checker of its kind, and the verdict is false."""
    made = a_run()
    spoil(made)

    verdict = judge(made.close())

    assert verdict.counts[kind] > 0, verdict.counts
    assert verdict.verdict == "false"
    assert kind in {finding.kind for finding in verdict.findings}


def test_every_kind_has_a_spoiled_history() -> None:
    """A kind that no history shows would be looked for by nobody."""
    assert {kind for _, kind in SPOILED} == set(ZERO)


def test_a_turn_of_unknown_outcome_may_be_there_or_not() -> None:
    """Its client was told nothing: both are right."""
    for is_there in (True, False):
        made = a_run()
        op = made.invoke()
        if is_there:
            made.work(op)
            made.journal += [f"{op.token}.0", f"{op.token}.1"]
        made.end(op, "info", error="no answer")
        made.rows.append(
            Stored(
                time=made.tick(),
                at=(0, made.seq + 20),
                session=SID,
                task=op.task,
                status="ok",
                epoch=made.epoch,
            )
        )

        assert judge(made.close()).verdict == "true"


def test_a_run_without_a_final_read_is_unknown() -> None:
    """Nobody looked what is left: that is no pass."""
    made = a_run()

    verdict = judge(made.history())

    assert verdict.verdict == "unknown"
    assert any("not read" in why for why in verdict.unknowns)
    assert any("its end" in why for why in verdict.unknowns)


def test_a_task_under_way_at_the_end_is_unknown() -> None:
    """It may still end well, or not."""
    made = a_run()
    made.invoke()

    assert judge(made.close()).verdict == "unknown"


def test_a_recording_with_holes_is_unknown() -> None:
    """What was stored where nobody looked may be anything."""
    made = a_run()
    made.close()
    made.replace(made.rows[-1], Footer(time=made.now, unseen=3))

    verdict = judge(made.history())

    assert verdict.verdict == "unknown"
    assert verdict.unknowns == ("nobody saw what was stored at 3 places",)


def test_a_fence_without_a_fault_is_false_in_a_quiet_run_alone() -> None:
    """Under faults it is counted, and told of; a quiet run is there to find it."""
    made = Made()
    made.turn()
    made.lose_owner()
    made.rows = [row for row in made.rows if type(row).__name__ != "Nemesis"]
    made.turn()
    history = made.close()

    assert judge(history).verdict == "true"
    verdict = judge(history, is_quiet=True)
    assert verdict.counts["false"] == 1
    assert verdict.verdict == "false"
