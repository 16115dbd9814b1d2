"""Subjects: what clients write down, and that whatever is built can be read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import subjects
from shared.classes import CLASSES, CLIENT_CLASSES
from shared.ids import SHARDS, home
from shared.traces.templates import template_of

ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{7,63}", fullmatch=True)
names = st.from_regex(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?", fullmatch=True)
shards = st.integers(0, SHARDS - 1)
classes = st.sampled_from(CLASSES)


@pytest.mark.parametrize(
    ("built", "written"),
    [
        (subjects.task("acme", "p", "batch"), "task.acme.p.batch"),
        (subjects.session_task("acme", "s1234567", "t1234567"), "session.acme.s1234567.t1234567"),
        (subjects.result("acme", "s1234567", "t1234567"), "result.acme.s1234567.t1234567"),
        (subjects.done("acme", "s1234567", "t1234567"), "done.acme.s1234567.t1234567"),
        (subjects.done("acme"), "done.acme.*.*"),
        (subjects.output("acme", "s1234567"), "out.acme.s1234567.*"),
        (subjects.cancel("acme", "s1234567", "t1234567"), "cancel.acme.s1234567.t1234567"),
        (subjects.ask("acme", "sessions"), "ask.acme.sessions"),
    ],
)
def test_clients_subjects_are_a_promise(built: str, written: str) -> None:
    """Foreign clients have them in their code: they may not change."""
    assert built == written


@given(names, names, ids, ids)
def test_what_belongs_to_a_session_is_stored_at_its_home(
    pool: str, tenant: str, session: str, task: str
) -> None:
    """Record, payload, results and inbox: one shard holds them all, so that one batch can change them."""
    shard = str(home(session))

    assert subjects.record(pool, tenant, session) == f"s.{shard}.rec.{pool}.{tenant}.{session}"
    assert subjects.payload(pool, tenant, session) == f"s.{shard}.job.{pool}.{tenant}.{session}"
    assert (
        subjects.stored_result(tenant, session, task) == f"s.{shard}.done.{tenant}.{session}.{task}"
    )
    assert subjects.inbox(tenant, session, task) == f"in.{shard}.{tenant}.{session}.{task}"
    assert subjects.any_pool_record(tenant, session) == f"s.{shard}.rec.*.{tenant}.{session}"
    assert (
        subjects.workspace_head(pool, tenant, session) == f"s.{shard}.ws.{pool}.{tenant}.{session}"
    )


@given(names, names, ids)
def test_a_record_s_subject_is_read_back(pool: str, tenant: str, session: str) -> None:
    """Stored or heard live, where the stream's own tokens are gone."""
    stored = subjects.record(pool, tenant, session)
    live = stored.split(".", 2)[2]

    assert subjects.parse_record(stored) == (pool, tenant, session)
    assert subjects.parse_record(live) == (pool, tenant, session)


@given(names, names, ids)
def test_a_workspace_head_s_subject_is_read_back(pool: str, tenant: str, session: str) -> None:
    """Stored or heard live, like its record's."""
    stored = subjects.workspace_head(pool, tenant, session)
    live = stored.split(".", 2)[2]

    assert live.startswith(subjects.WORKSPACES_LIVE.removesuffix(">"))
    assert subjects.parse_record(stored) == (pool, tenant, session)
    assert subjects.parse_record(live) == (pool, tenant, session)


@given(names, ids, ids)
def test_a_task_s_subject_is_read_back(tenant: str, session: str, task: str) -> None:
    """Wherever it stands."""
    for built in (
        subjects.session_task(tenant, session, task),
        subjects.inbox(tenant, session, task),
        subjects.stored_result(tenant, session, task),
        subjects.result(tenant, session, task),
        subjects.done(tenant, session, task),
        subjects.output(tenant, session, task),
        subjects.cancel(tenant, session, task),
    ):
        assert subjects.parse_task(built) == (tenant, session, task)


@given(shards, names, names, classes)
def test_a_lane_is_read_back(shard: int, tenant: str, pool: str, klass: str) -> None:
    """Shard, tenant, pool and class: all that a puller believes of a message."""
    lane = subjects.queue(shard, tenant, pool, klass)

    assert subjects.parse_queue(lane) == (shard, tenant, pool, klass)


@given(names, classes, shards)
def test_a_bell_is_read_back(pool: str, klass: str, shard: int) -> None:
    """It says which lane to pull from."""
    assert subjects.parse_bell(subjects.bell(pool, klass, shard)) == (pool, klass, shard)


@given(names, names, classes, classes)
def test_no_two_lanes_share_a_consumer(one: str, other: str, klass: str, second: str) -> None:
    """Even where a pool is named like another one's class."""
    same = subjects.consumer(one, klass) == subjects.consumer(other, second)

    assert same == ((one, klass) == (other, second))


def test_work_after_a_loss_comes_first_and_is_no_client_s() -> None:
    """Classes in the order in which free workers ask them."""
    assert CLASSES == ("recovery", "interactive", "batch")
    assert set(CLIENT_CLASSES) == set(CLASSES) - {"recovery"}


@given(names, names, names, classes, shards)
def test_forms_of_subjects_hold_no_names(
    tenant: str, pool: str, session: str, klass: str, shard: int
) -> None:
    """They name spans: as many values as there are kinds of subjects."""
    built = {
        subjects.task(tenant, pool, klass): "task.{tenant}.{pool}.{class}",
        subjects.session_task(tenant, session, "t1"): "session.{tenant}.{session}.{task}",
        subjects.inbox(tenant, session, "t1"): "in.{home}.{tenant}.{session}.{task}",
        subjects.queue(shard, tenant, pool, klass): "q.{shard}.{tenant}.{pool}.{class}",
        subjects.dead_letter(tenant, pool): "dlq.{tenant}.{pool}",
        subjects.heartbeat(pool, session): "hb.>",
    }

    assert {subject: template_of(subject) for subject in built} == built


@pytest.mark.parametrize(
    ("name", "shard"), [("0", 0), ("1", 1), ("31", 1), ("d0-1764450000000", 0), ("d2-7", 2)]
)
def test_slots_spread_over_the_shards_and_lie_beside_their_message(name: str, shard: int) -> None:
    """So that one server's loss leaves two thirds of a pool's refill."""
    assert subjects.slot_shard(name) == shard
    assert subjects.slot("p", name) == f"slot.{shard}.p.{name}"
