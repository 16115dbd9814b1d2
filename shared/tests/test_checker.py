"""The checker passes what is lawful, whatever happened, and finds what was taken from or added to it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared import transitions
from shared.messages import WorkspaceLost
from shared.testing.checker import judge
from shared.testing.history import History, Outcome
from shared.testing.scripted import SHARD, TENANT, ScriptedSession, busy


def test_a_clean_history_passes() -> None:
    """Interruptions, losses that were told, and second attempts are no violations."""
    verdict = judge(busy().history())

    assert verdict.ok, verdict.explain()
    assert (verdict.accepted, verdict.finished, verdict.unknown) == (4, 4, 0)


def test_what_was_seen_twice_is_judged_once() -> None:
    """Two connections hear the same, and the end is read besides."""
    session = busy()
    twice = session.history(
        accepted=(*session.accepted, *session.accepted),
        versions=(*session.versions, *session.versions),
        outcomes=(*session.outcomes, *session.outcomes),
    )

    assert judge(twice) == judge(session.history())


def test_an_unanswered_publish_that_never_showed_up_is_unknown() -> None:
    """It is not lost; and one that did show up counts as accepted."""
    session = busy()
    session.send()
    never = replace(session.accepted.pop(), certain=False)
    verdict = judge(session.history(accepted=(*session.accepted, never), unseen=2))
    assert (verdict.ok, verdict.accepted, verdict.unknown) == (True, 4, 3)

    unsure = tuple(replace(one, certain=False) for one in session.accepted)
    assert judge(session.history(accepted=unsure)).accepted == 4


def test_expected_ends_are_no_findings() -> None:
    """A cancelled task may have written into the workspace, or not; a poison session is wanted as such."""
    session = busy()
    cancelled, last = session.send(), session.send()
    session.accepted[-2] = replace(session.accepted[-2], expect=("ok", "cancelled"))
    session.begin(cancelled)
    session.commit(cancelled, status="cancelled", reason="requested")
    del session.journals[TENANT, session.name, cancelled]
    session.run(last)
    verdict = judge(session.history())

    assert verdict.ok, verdict.explain()


def test_the_first_findings_of_each_kind_are_kept() -> None:
    """All are counted; a verdict stays readable."""
    session = busy()
    for _ in range(40):
        session.send()
    verdict = judge(session.history())

    assert verdict.lost == 40
    assert len(verdict.findings) == 5
    assert verdict.explain().startswith("44 accepted, 4 finished, 0 unknown; 40 lost\nlost: acme/")


Steps = st.lists(st.sampled_from(("run", "die", "die in a task", "release")), max_size=12)


def play(steps: list[str], name: str, seq: int) -> ScriptedSession:
    """Return a session that did these things."""
    session = ScriptedSession(name, seq)
    session.run(session.name)
    for step in steps:
        if step == "run":
            session.run(session.send())
        elif step == "die":
            session.die()
        elif step == "die in a task":
            task = session.send()
            session.begin(task)
            session.die()
            session.run(task)
        else:
            released = transitions.release(
                session.record, session.hold, position=session.record.position, now_ms=5
            )
            session.store(released)
            session.store(transitions.wake(session.record, lane="batch"))
            session.store(
                transitions.claim(session.record, owner=session.new_worker(), node="n", now_ms=6)
            )
            session.workspace = []
    return session


@settings(max_examples=60, deadline=None)
@given(steps=Steps, others=Steps, data=st.data())
def test_any_lawful_history_passes_and_any_missing_or_foreign_piece_is_found(
    steps: list[str], others: list[str], data: st.DataObject
) -> None:
    """Two sessions side by side; then one result is dropped, doubled or moved to an older epoch."""
    one = play(steps, "session-1", 1)
    two = play(others, "session-2", one.seq)
    both = History(
        accepted=(*one.accepted, *two.accepted),
        versions=(*one.versions, *two.versions),
        outcomes=(*one.outcomes, *two.outcomes),
        kept=one.history().kept | two.history().kept,
        begins=(*one.begins, *two.begins),
        journals=one.journals | two.journals,
    )
    verdict = judge(both)
    assert verdict.ok, verdict.explain()

    victim = data.draw(st.sampled_from(both.outcomes))
    rest = tuple(outcome for outcome in both.outcomes if outcome is not victim)
    assert judge(replace(both, outcomes=rest)).lost
    again = Outcome((SHARD, two.seq), victim.result)
    doubled = replace(both, outcomes=(*both.outcomes, again), kept=both.kept | {again.at})
    assert judge(doubled).doubled
    old = Outcome(victim.at, replace(victim.result, epoch=victim.result.epoch - 1 or 99))
    assert judge(replace(both, outcomes=(*rest, old))).stale


def test_losing_a_version_hides_nothing_else() -> None:
    """A history with a hole is judged by what is left of it."""
    session = busy()
    holed = session.history(versions=tuple(session.versions[2:]), unseen=2)
    verdict = judge(holed)

    assert verdict.ok, verdict.explain()
    assert verdict.unknown == 2


def test_a_loss_told_in_another_tasks_result_counts() -> None:
    """A loss is said once: in the result of whichever task comes first after it."""
    session = busy()
    session.die()
    told, after = session.send(), session.send()
    session.begin(told)
    session.commit(told)
    del session.journals[TENANT, session.name, told]
    session.workspace = []
    session.run(after)
    verdict = judge(session.history())
    assert verdict.ok, verdict.explain()
    lost = session.outcomes[-2].result.workspace_lost
    assert isinstance(lost, WorkspaceLost)
