"""The checker finds each kind of violation, under its name and with its evidence."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from shared import transitions
from shared.testing.checker import judge
from shared.testing.history import History
from shared.testing.scripted import SILENT, TENANT, ScriptedSession, busy, task_of


def never_finished(session: ScriptedSession) -> History:
    """An accepted task has no result."""
    session.send()
    return session.history()


def only_in_the_stream(session: ScriptedSession) -> History:
    """A task whose publisher heard no PubAck lies in an inbox, and nobody runs it."""
    session.send()
    unsure, lying = replace(session.accepted[-1], certain=False), session.accepted.pop()
    return session.history(accepted=(*session.accepted, unsure, lying))


def result_is_gone(session: ScriptedSession) -> History:
    """A result was heard and is not stored at the end."""
    kept = sorted(session.history().kept)
    return session.history(kept=frozenset(kept[1:]))


def silent_fresh_start(session: ScriptedSession) -> History:
    """A workspace is empty, and nobody said that it was lost."""
    session.workspace = []
    session.run(session.send())
    return session.history()


def two_results(session: ScriptedSession) -> History:
    """A zombie overwrites a result."""
    session.put(session.result(task_of(session, 2), epoch=1, worker="worker-1"))
    return session.history()


def two_results_one_unseen(session: ScriptedSession) -> History:
    """The first of two results was never seen, but the record counts both tasks."""
    session.store(replace(session.record, tasks_done=session.record.tasks_done + 1))
    return session.history()


def ran_after_its_result(session: ScriptedSession) -> History:
    """User code of a finished task runs again under a later epoch."""
    session.die()
    session.begin(task_of(session, 1))
    return session.history()


def ran_twice_in_one_epoch(session: ScriptedSession) -> History:
    """One claim runs a task twice."""
    return session.history(begins=(*session.begins, session.begins[-1]))


def work_twice(session: ScriptedSession) -> History:
    """A second attempt ran in the workspace of the first."""
    task = session.send()
    session.begin(task)
    session.workspace.append(task)
    session.commit(task)
    return session.history()


def results_in_wrong_order(session: ScriptedSession) -> History:
    """A later task is finished before an earlier one."""
    early, late = session.send(), session.send()
    session.run(late)
    session.put(session.result(early))
    session.store(replace(session.record, tasks_done=session.record.tasks_done + 1))
    session.journals[TENANT, session.name, early] = (*session.workspace, early)
    return session.history()


def work_in_wrong_order(session: ScriptedSession) -> History:
    """The workspace shows another order than the results."""
    session.workspace.reverse()
    session.run(session.send())
    return session.history()


def position_went_back(session: ScriptedSession) -> History:
    """An inbox would be read again."""
    session.store(replace(session.record, position=1))
    return session.history()


def failed_for_no_reason(session: ScriptedSession) -> History:
    """A task that cannot fail has a result that says so."""
    task = session.send()
    session.begin(task)
    session.commit(task, status="failed", reason="sandbox_lost")
    return session.history()


def innocent_and_quarantined(session: ScriptedSession) -> History:
    """A task that kills nobody ends as poison."""
    task = session.send()
    session.store(transitions.revoke(session.record, death=SILENT, now_ms=3))
    session.put(session.result(task, status="poison", reason="deaths", worker=""))
    session.store(replace(session.record, state="poison"))
    return session.history()


def epoch_went_back(session: ScriptedSession) -> History:
    """A zombie overwrites the record."""
    old = session.record
    session.die()
    session.store(old)
    return session.history()


def two_owners_of_an_epoch(session: ScriptedSession) -> History:
    """Two claims gave the same epoch."""
    session.store(replace(session.record, owner="worker-9"))
    return session.history()


def ended_and_alive_again(session: ScriptedSession) -> History:
    """A closed session gets an owner."""
    session.store(replace(session.record, state="closed", owner=None))
    session.store(
        transitions.claim(replace(session.record, state="queued"), owner="w9", node="n", now_ms=5)
    )
    return session.history()


def result_of_a_revoked_epoch(session: ScriptedSession) -> History:
    """The batch has the result of an old attempt and a record of the new epoch."""
    task = session.send()
    session.begin(task)
    stale = {"epoch": session.record.epoch, "worker": session.record.owner}
    session.die()
    session.begin(task)
    session.begins.pop()  # what matters here is stored, not run
    session.commit(task, **stale)
    return session.history()


def result_without_its_record(session: ScriptedSession) -> History:
    """A result was stored and the record of the same batch was not."""
    session.put(session.result(session.send()))
    return session.history()


def result_beside_another_session_s_record(session: ScriptedSession) -> History:
    """The batch has the result of one session and the record of another, under the same epoch."""
    other = ScriptedSession("session-9", seq=session.seq + 1)
    session.put(replace(session.result(task_of(session, 1)), epoch=other.record.epoch))
    return session.history(versions=(*session.versions, *other.versions))


@pytest.mark.parametrize(
    ("kind", "breaks"),
    [
        ("lost", never_finished),
        ("lost", only_in_the_stream),
        ("lost", result_is_gone),
        ("lost", silent_fresh_start),
        ("doubled", two_results),
        ("doubled", two_results_one_unseen),
        ("doubled", ran_after_its_result),
        ("doubled", ran_twice_in_one_epoch),
        ("doubled", work_twice),
        ("disordered", results_in_wrong_order),
        ("disordered", work_in_wrong_order),
        ("disordered", position_went_back),
        ("failed", failed_for_no_reason),
        ("quarantined", innocent_and_quarantined),
        ("stale", epoch_went_back),
        ("stale", two_owners_of_an_epoch),
        ("stale", ended_and_alive_again),
        ("stale", result_of_a_revoked_epoch),
        ("stale", result_without_its_record),
        ("stale", result_beside_another_session_s_record),
    ],
)
def test_a_violation_is_found_under_its_name(
    kind: str, breaks: Callable[[ScriptedSession], History]
) -> None:
    """With evidence; what follows from it may be found as well."""
    verdict = judge(breaks(busy()))

    assert verdict.counts()[kind], verdict.explain()
    assert any(one.kind == kind and "session-1" in one.subject for one in verdict.findings)
    assert not verdict.ok


def test_a_record_of_another_session_in_the_batch_is_told_by_its_name() -> None:
    """The epoch alone would not show it: here it is the same."""
    verdict = judge(result_beside_another_session_s_record(busy()))

    assert [one.what for one in verdict.findings if one.what.endswith("of session-9")]
