"""What clients ask about snapshots, on real servers, beside a checkpointer that speaks the real messages."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import uuid4

import pytest
from msgspec.structs import replace

from pool_manager.loops import fork as forking
from shared import limits, messages, subjects
from shared.errors import ErrorInfo
from shared.identity import roles
from shared.messages import TaskResult
from shared.snapshots import (
    DiffAnswer,
    DiffAsk,
    DiffRow,
    ForkAnswer,
    ForkAsk,
    NameAsk,
    SnapshotAnswer,
    SnapshotsAnswer,
    SnapshotsAsk,
)
from shared.testing.keepers import CheckpointerPeer
from shared.testing.look import Look, until
from shared.testing.names import unique
from shared.workspace import Pin, Retained, SnapshotRef, WorkspaceHead

TENANT = "acme"
T = TypeVar("T")


def ref(number: int) -> SnapshotRef:
    """Return a snapshot."""
    return SnapshotRef(
        id=f"{number:02}".ljust(64, "a"),
        pack=f"acme/session/p{number}",
        at_ms=1000 + number,
        bytes=number,
    )


@pytest.fixture
async def peer(look: Look, connect: Any) -> CheckpointerPeer:
    """A checkpointer."""
    made = CheckpointerPeer(await connect(roles.checkpointer("node-a"), name="ckpt-node-a"), TENANT)
    await made.start()
    return made


@pytest.fixture
async def parent(start: Any, node: Any, look: Look, peer: CheckpointerPeer) -> str:
    """A session with three snapshots, the second of which its last completed task left behind."""
    await start("pm-1", pools=[{"name": "default", "stock": 1}])
    session = unique("session")
    worker = (await node.warm(1))[0]
    await worker.create(session)
    stored = await look.stored(session)
    assert stored is not None
    record = await look.record(session)
    assert record is not None
    saved = replace(record, boundary=ref(2), first_done=True, keep=True)
    await look.bus.compare_and_set(stored.subject, messages.encode(saved), expected_seq=stored.seq)
    retained = tuple(Retained(snapshot=ref(n), epoch=1, task=f"task-{n:04}") for n in (1, 2, 3))
    await peer.write(
        WorkspaceHead(session=session, tenant=TENANT, pool="default", retained=retained)
    )
    return session


async def ask(look: Look, what: str, question: Any, kind: type[T], tenant: str = TENANT) -> T:
    """Ask as a client does."""
    data = messages.encode(question)
    said = await look.bus.request(subjects.ask(tenant, what), data, timeout_s=30.0)
    return messages.decode(said.data, kind)


async def refused(look: Look, what: str, question: Any, tenant: str = TENANT) -> ErrorInfo:
    """Ask, and return the refusal."""
    answer = await ask(look, what, question, SnapshotsAnswer, tenant)
    assert answer.error is not None
    return answer.error


async def test_snapshots_are_listed_newest_first(parent: str, look: Look) -> None:
    """With what they are to the session; another tenant's session is not known."""
    found = await ask(look, "snapshots", SnapshotsAsk(session=parent), SnapshotsAnswer)

    assert [(row.id, row.task, row.head) for row in found.snapshots] == [
        (ref(3).id, "task-0003", None),
        (ref(2).id, "task-0002", "boundary"),
        (ref(1).id, "task-0001", None),
    ]
    assert (
        await refused(look, "snapshots", SnapshotsAsk(session=parent), "else")
    ).code == "not_found"
    assert (
        await refused(look, "diff", DiffAsk(session=parent, before="01"), "else")
    ).code == "not_found"
    foreign = ForkAsk(session=parent, fork=str(uuid4()))
    assert (await refused(look, "fork", foreign, "else")).code == "not_found"


async def test_a_snapshot_is_named_and_found_by_name(parent: str, look: Look) -> None:
    """By the beginning of its id at first; a name that could be one is refused before anybody is asked."""
    named = await ask(
        look,
        "snapshot_name",
        NameAsk(session=parent, snapshot=ref(1).id[:10], name="good"),
        SnapshotAnswer,
    )
    again = await ask(
        look, "snapshot_name", NameAsk(session=parent, snapshot="good", name="best"), SnapshotAnswer
    )
    found = await ask(look, "snapshots", SnapshotsAsk(session=parent), SnapshotsAnswer)

    assert named.snapshot is not None
    assert (named.snapshot.id, named.snapshot.name) == (ref(1).id, "good")
    assert again.snapshot is not None
    assert [row.name for row in found.snapshots] == ["", "", "best"]
    for snapshot, name, code in (
        ("good", "x", "not_found"),
        ("aaaaaaaa", "x", "not_found"),
        ("best", "cafe1234", "invalid_message"),
    ):
        bad = NameAsk(session=parent, snapshot=snapshot, name=name)
        assert (await refused(look, "snapshot_name", bad)).code == code


async def test_a_fork_begins_with_what_the_last_task_left_behind(
    parent: str, look: Look, peer: CheckpointerPeer
) -> None:
    """A session of its own, idle, in its parent's pool; asked for again it is the same; its id has a result."""
    name = str(uuid4())
    made = await ask(look, "fork", ForkAsk(session=parent, fork=name), ForkAnswer)
    again = await ask(look, "fork", ForkAsk(session=parent, fork=name), ForkAnswer)

    assert made.error is None
    assert made == again
    assert (made.session, made.pool) == (name, "default")
    assert made.snapshot is not None
    assert made.snapshot.id == ref(2).id
    record = await look.in_state(name, "idle")
    assert (record.boundary, record.keep, record.first_done) == (ref(2), True, True)
    head, _ = await peer.read(parent)
    assert head is not None
    assert head.pins == (Pin(snapshot=ref(2).id, session=name),)
    result = await look.result(name)
    assert result is not None
    assert (result.kind, result.status) == ("fork", "ok")
    listed = await ask(look, "snapshots", SnapshotsAsk(session=parent), SnapshotsAnswer)
    assert [row.forks for row in listed.snapshots] == [0, 1, 0]


async def test_a_fork_that_got_no_answer_is_gone_on_with(
    parent: str, look: Look, peer: CheckpointerPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pin was made, nobody heard of it: the same id finishes it, and pins nothing twice."""
    monkeypatch.setattr("pool_manager.adapters.workspaces.KEEP_S", 0.3)
    peer.silent = forking.TRIES
    name = str(uuid4())
    unsure = await ask(look, "fork", ForkAsk(session=parent, fork=name), ForkAnswer)
    between = await look.record(name)
    made = await ask(look, "fork", ForkAsk(session=parent, fork=name), ForkAnswer)

    assert unsure.error is not None
    assert (unsure.error.code, unsure.error.definite) == ("outcome_unknown", False)
    assert between is not None
    assert between.state == "forking"
    assert made.session == name
    head, _ = await peer.read(parent)
    assert head is not None
    assert len(head.pins) == 1


async def test_a_fork_whose_snapshot_goes_meanwhile_ends(
    parent: str, look: Look, peer: CheckpointerPeer
) -> None:
    """The checkpointer has the last word: the new session is rejected, and says why."""
    head, seq = await peer.read(parent)
    assert head is not None
    await peer.write(replace(head, retained=()), seq)
    name = str(uuid4())
    answer = await ask(look, "fork", ForkAsk(session=parent, fork=name), ForkAnswer)

    assert answer.error is not None
    assert answer.error.code == "not_found"
    assert (await look.in_state(name, "rejected")).end_reason == "no_snapshot"
    result: TaskResult = await look.ended(name, name)
    assert (result.status, result.reason) == ("rejected", "no_snapshot")
    again = await ask(look, "fork", ForkAsk(session=parent, fork=name), ForkAnswer)
    assert again.error is not None
    assert again.error.code == "rejected"


async def test_what_can_not_be_forked_is_said(parent: str, look: Look) -> None:
    """An id that others could make, one that is taken, no such snapshot, a session that nobody saved."""
    taken = str(uuid4())
    await ask(look, "fork", ForkAsk(session=parent, fork=taken, snapshot=ref(3).id[:8]), ForkAnswer)
    fresh = str(uuid4())
    for question, code in (
        (ForkAsk(session=parent, fork="not-unique"), "invalid_message"),
        (ForkAsk(session=taken, fork=taken), "rejected"),
        (ForkAsk(session=parent, fork=fresh, snapshot="nameless"), "not_found"),
        (ForkAsk(session="no-such-session", fork=fresh), "not_found"),
    ):
        assert (await refused(look, "fork", question)).code == code
    assert await look.record(fresh) is None


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pool-managers that give an unfinished fork a moment only."""
    monkeypatch.setattr("pool_manager.adapters.workspaces.KEEP_S", 0.1)
    monkeypatch.setattr("pool_manager.loops.snapshots.SWEEP_S", 0.1)
    monkeypatch.setattr(forking, "OLD_S", 0.2)


async def test_an_old_fork_that_nobody_finished_is_ended(
    impatient: None, parent: str, look: Look, peer: CheckpointerPeer
) -> None:
    """Its manager died, and its client does not ask again."""
    peer.silent = forking.TRIES
    name = str(uuid4())
    await ask(look, "fork", ForkAsk(session=parent, fork=name), ForkAnswer)

    assert (await look.in_state(name, "rejected")).end_reason == "no_snapshot"


async def test_differences_are_paged_and_end_at_their_bound(
    parent: str, look: Look, peer: CheckpointerPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, in order; the last page says so, or that there are more than can be shown."""
    peer.changes = [DiffRow(path=f"f{n}", change="added", size_after=n) for n in range(5)]
    first = await ask(look, "diff", DiffAsk(session=parent, before=ref(1).id, limit=3), DiffAnswer)
    rest = await ask(
        look, "diff", DiffAsk(session=parent, before=ref(1).id, limit=3, skip=3), DiffAnswer
    )
    monkeypatch.setattr(limits, "DIFF_CHANGES_MAX", 3)
    cut = await ask(look, "diff", DiffAsk(session=parent, before=ref(1).id, limit=3), DiffAnswer)

    assert (first.before, first.after) == (ref(1).id, ref(2).id)
    assert (*first.changes, *rest.changes) == tuple(peer.changes)
    assert (first.next, rest.next) == (3, None)
    assert (cut.next, cut.truncated, first.truncated) == (None, True, False)


async def test_the_snapshots_of_a_session_that_has_ended_are_gone(parent: str, look: Look) -> None:
    """Said so, not shown: its record names the last one for two days yet."""
    stored = await look.stored(parent)
    record = await look.record(parent)
    assert stored is not None
    assert record is not None
    closed = replace(record, state="closed", owner=None, node=None, ended_ms=1)
    await look.bus.compare_and_set(stored.subject, messages.encode(closed), expected_seq=stored.seq)

    said = [
        await refused(look, what, question)
        for what, question in (
            ("snapshots", SnapshotsAsk(session=parent)),
            ("diff", DiffAsk(session=parent, before=ref(1).id)),
        )
    ]

    assert [(one.code, "its files are gone" in one.message) for one in said] == [
        ("not_found", True)
    ] * 2


async def test_a_session_that_was_never_saved_has_nothing_to_fork(
    start: Any, node: Any, look: Look
) -> None:
    """An empty list, and a clear word; no checkpointer is needed for either."""
    await start("pm-1", pools=[{"name": "default", "stock": 1}])
    session = unique("session")
    await (await node.warm(1))[0].create(session)
    await until(lambda: look.record(session))
    empty = await ask(look, "snapshots", SnapshotsAsk(session=session), SnapshotsAnswer)
    nothing = await refused(look, "fork", ForkAsk(session=session, fork=str(uuid4())))

    assert empty.snapshots == ()
    assert (nothing.code, "nothing was ever saved" in nothing.message) == ("not_found", True)
