"""The table, the turn, the nodes' choice, tokens and backlogs."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pool_manager.core.backlog import TRACKED_MAX, Backlog, Waiting, deadline_ms, task_of
from pool_manager.core.nodes import Nodes, Place
from pool_manager.core.peers import DEAD_AFTER_S, GRACE_S, ManagerBeat, Peers
from pool_manager.core.table import ENDED_KEPT, Table
from pool_manager.core.tokens import Tokens, message_id
from shared.ids import home, task_id_of_delivery
from shared.messages import NodeBeat
from shared.record import ENDED, Origin, Record, State

STATES: tuple[State, ...] = ("queued", "running", "waiting", "idle", "closed", "poison")


def record(
    session: str, state: State = "running", owner: str | None = "w", epoch: int = 1
) -> Record:
    """Return a record."""
    return Record(
        session=session,
        tenant="t",
        pool="p",
        state=state,
        lane="batch",
        client_lane="batch",
        keep=True,
        accepted_ms=1,
        epoch=epoch,
        owner=owner if state == "running" else None,
    )


# --- table -----------------------------------------------------------------------------------------------------------


@given(
    writes=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(STATES)), max_size=30),
    shuffle=st.randoms(use_true_random=False),
)
def test_the_newest_write_of_each_session_stands_in_whatever_order_they_come(
    writes: list[tuple[int, State]], shuffle: object
) -> None:
    """Live events and readings of replicas that lag overtake each other."""
    stored = [
        (record(f"session-{n}", state, owner=f"w{seq}"), seq)
        for seq, (n, state) in enumerate(writes, start=1)
    ]
    newest = {r.session: r for r, _ in stored}
    table = Table()
    shuffle.shuffle(stored)  # type: ignore[attr-defined]  # hypothesis' Random

    for item, seq in stored:
        table.apply(item, seq, now=float(seq))

    live = {session: r for session, r in newest.items() if r.state not in ENDED}
    assert {row.record.session: row.record for row in table} == live
    assert {row.record.session for row in table.newest_ended()} == newest.keys() - live.keys()
    by_state = {"owned": "running", "queued": "queued", "waiting": "waiting"}
    for name, state in by_state.items():
        expected = {f"t.{session}" for session, r in live.items() if r.state == state}
        assert getattr(table, name).keys() == expected
    assert table.owned_count("p") == len(table.owned)
    for r in live.values():
        if r.owner:
            owned = table.owned_by(r.owner)
            assert owned is not None
            assert owned.record == r


def test_a_rows_age_is_that_of_its_owner_not_of_its_last_write() -> None:
    """A result moves the sequence; the owner has been seen for longer."""
    table = Table()
    table.apply(record("session-1"), 1, now=1.0)
    table.apply(record("session-1"), 2, now=2.0)
    row = table.get("t.session-1")
    assert row is not None
    assert (row.seq, row.since) == (2, 1.0)

    table.apply(record("session-1", epoch=2), 3, now=3.0)

    row = table.get("t.session-1")
    assert row is not None
    assert row.since == 3.0


def test_ended_sessions_are_remembered_up_to_a_bound() -> None:
    """One-shots end by the million."""
    table = Table()

    for n in range(ENDED_KEPT + 5):
        table.apply(record(f"session-{n}", "closed"), n + 1, now=1.0)

    assert len(list(table.newest_ended())) == ENDED_KEPT
    assert len(table) == 0


# --- whose turn ------------------------------------------------------------------------------------------------------


@given(
    names=st.lists(
        st.from_regex(r"pm-[0-9]{1,4}", fullmatch=True), min_size=1, max_size=5, unique=True
    ),
    key=st.text(max_size=20),
)
def test_all_agree_on_who_acts_first_second_and_last(names: list[str], key: str) -> None:
    """Without a word between them."""
    ranks = []
    for me in names:
        peers = Peers(me)
        for other in names:
            peers.heard(ManagerBeat(manager=other), 1.0)
        ranks.append(peers.rank(key, 1.5))

    assert sorted(ranks) == list(range(len(names)))


def test_the_next_one_follows_after_a_grace_or_once_the_first_is_dead() -> None:
    """A silent one is counted out, a leaving one at once."""
    me, other = Peers("pm-1"), Peers("pm-2")
    me.heard(ManagerBeat(manager="pm-2"), 1.0)
    other.heard(ManagerBeat(manager="pm-1"), 1.0)
    key = next(k for k in map(str, range(100)) if other.rank(k, 1.0) == 0)

    assert not me.may_act(key, since=1.0, now=1.0 + GRACE_S / 2)
    assert me.may_act(key, since=1.0, now=1.0 + GRACE_S)
    assert me.is_first(key, 1.1 + DEAD_AFTER_S)

    me.heard(ManagerBeat(manager="pm-2"), 5.0)
    assert not me.is_first(key, 5.0)
    me.heard(ManagerBeat(manager="pm-2", leaving=True), 5.1)
    assert me.is_first(key, 5.1)


# --- nodes -----------------------------------------------------------------------------------------------------------


def node(name: str, pods: int, capacity: int = 10, **more: object) -> NodeBeat:
    """Return a node's heartbeat."""
    isolation = more.pop("isolation", {"process": "", "namespace": ""})
    names = tuple(f"{name}-{i}" for i in range(pods))
    return NodeBeat(
        node=name,
        started_ms=1,
        pods=names,
        capacity=capacity,
        isolation=isolation,
        **more,  # type: ignore[arg-type]  # any field
    )


def test_the_least_loaded_node_takes_the_next_pod() -> None:
    """Load is relative to capacity, and counts what was asked of it."""
    nodes = Nodes()
    nodes.heard(node("a", 4), 1.0)
    nodes.heard(node("b", 5, capacity=20), 1.0)

    assert nodes.choose("auto", 1.0) == Place("b", "namespace")
    for number in range(4):
        nodes.asked(f"new-{number}", "b")
    assert nodes.choose("process", 1.0) == Place("a", "process")
    nodes.not_asked("new-0")
    nodes.not_asked("new-1")
    assert nodes.choose("auto", 1.0) == Place("b", "namespace")


def test_a_node_that_refused_is_left_alone_for_a_moment() -> None:
    """It is leaving, say; its heartbeat will tell. Alone, it is the reason."""
    nodes = Nodes()
    nodes.heard(node("a", 0), 1.0)
    nodes.heard(node("b", 5), 1.0)
    nodes.refused("a", "node a is leaving", 1.0)

    assert nodes.choose("auto", 1.5) == Place("b", "namespace")
    nodes.refused("b", "nobody listens", 1.5)
    assert nodes.choose("auto", 1.6) == "a: node a is leaving; b: nobody listens"
    assert nodes.choose("auto", 2.1) == Place("a", "namespace")


@pytest.mark.parametrize(
    ("beat", "now", "words"),
    [
        (node("a", 0), 9.0, "no node is alive"),
        (node("a", 0, draining=True), 1.0, "draining"),
        (node("a", 10), 1.0, "a 10/10"),
        (node("a", 0, isolation={"gvisor": "no runsc"}), 1.0, "a: no runsc"),
    ],
)
def test_where_no_node_can_take_it_the_reason_is_told(
    beat: NodeBeat, now: float, words: str
) -> None:
    """In the words of the nodes."""
    nodes = Nodes()
    nodes.heard(beat, 1.0)

    reason = nodes.choose("gvisor" if "gvisor" in beat.isolation else "auto", now)

    assert isinstance(reason, str)
    assert words in reason


# --- tokens ----------------------------------------------------------------------------------------------------------


def queued(table: Table, *, seq: int = 5, now: float = 10.0, stored_ms: int = 50_000) -> None:
    """Put a queued session into the table."""
    table.apply(record("session-1", "queued"), seq, now=now, stored_ms=stored_ms)


def test_a_backlog_is_no_lost_token() -> None:
    """As long as something older waits in the lane, the token waits its turn."""
    table, tokens = Table(), Tokens()
    queued(table)

    assert tokens.due(table.queued, 11.9) == []
    (row,) = tokens.due(table.queued, 12.1)

    assert not tokens.is_lost(row, 40_000)
    assert not tokens.is_lost(row, 50_100)  # perhaps the token itself
    assert tokens.is_lost(row, 52_000)
    assert tokens.is_lost(row, None)


def test_each_further_token_waits_longer() -> None:
    """2 s, then 4, 8, … up to a bound; a new write of the record begins anew."""
    table, tokens = Table(), Tokens()
    queued(table)
    now, waits = 12.0, []
    for _ in range(6):
        (row,) = tokens.due(table.queued, now)
        tokens.sent(row, now=now, wall_ms=1)
        began = now
        while not tokens.due(table.queued, now):
            now += 0.5
        waits.append(now - began)

    assert waits == [4, 8, 16, 30, 30, 30]
    table.apply(record("session-1", "queued", epoch=2), 6, now=now)
    assert tokens.due(table.queued, now + 1) == tokens.due(table.queued, now) == []


def test_a_tokens_id_is_one_for_each_write_and_each_two_seconds() -> None:
    """Two pool-managers that send the same token send it once."""
    assert message_id("s", 7) == "s:7"
    assert message_id("s", 7, 4_000) == message_id("s", 7, 5_999) == "s:7:2"
    assert message_id("s", 7, 6_000) == "s:7:3"


# --- backlog ---------------------------------------------------------------------------------------------------------


def waiting(seq: int, due_ms: int) -> Waiting:
    """Return a waiting message."""
    origin = Origin(session=f"session-{seq}", tenant="t", pool="p", lane="batch", accepted_ms=1)
    return Waiting(seq, origin, due_ms)


def test_each_message_is_read_once_and_forgotten_when_it_left() -> None:
    """The oldest ones of the lane are tracked."""
    backlog = Backlog()
    for seq in range(1, 5):
        backlog.read(seq, waiting(seq, seq * 1000) if seq != 2 else None)

    assert [w.seq for w in backlog.overdue(3000)] == [1, 3]
    backlog.begins_at(3)
    assert backlog.cursor == 4
    assert [w.seq for w in backlog.overdue(9000)] == [3, 4]
    backlog.done(3)
    assert [w.seq for w in backlog.overdue(9000)] == [4]
    for seq in range(10, 10 + TRACKED_MAX):
        backlog.read(seq, waiting(seq, 1))
    assert backlog.is_full


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        (b'{"kind":"open","deadline_s":2.5}', 2.5),
        (b'{"kind":"open"}', 24 * 3600),
        (b'{"deadline_s":1e12}', 24 * 3600),
        (b'{"deadline_s":-1}', 0),
        (b'{"deadline_s":"soon"}', 24 * 3600),
        (b"\xff not json", 24 * 3600),
        (b"[" * 100_000, 24 * 3600),
    ],
)
def test_a_deadline_is_read_from_whatever_body(body: bytes, seconds: float) -> None:
    """What cannot be read has the longest time: its puller will say what is wrong with it."""
    assert deadline_ms(body, 1000) == 1000 + int(seconds * 1000)


def test_a_message_without_a_usable_id_has_the_id_of_its_delivery() -> None:
    """As every puller derives it."""
    assert task_of("some-task-id", 1, 77) == "some-task-id"
    assert task_of("a b", 1, 77) == task_of(None, 1, 77) == task_id_of_delivery(1, 77)
    assert home(task_of(None, 1, 77)) == 1
