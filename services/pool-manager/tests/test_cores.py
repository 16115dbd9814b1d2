"""The table of sessions, whose turn it is, which node takes the next pod."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pool_manager.core.nodes import Nodes, Place
from pool_manager.core.peers import DEAD_AFTER_S, GRACE_S, ManagerBeat, Peers
from pool_manager.core.table import ENDED_KEPT, Table
from shared.messages import NodeBeat
from shared.record import ENDED, Record, State

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
        (node("a", 0, isolation={"process": "", "namespace": "no"}), 1.0, "a: namespace: no"),
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


def test_a_manager_that_just_started_does_not_know_who_else_lives() -> None:
    """Near a pool's cap it waits until it must have heard the others."""
    peers = Peers("a", started=10.0)

    assert not peers.is_settled(10.9)
    assert peers.is_settled(11.0)
