"""Which snapshots stay, and what may become of a workspace head."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from checkpointer.core.collect import sweep
from checkpointer.core.heads import RETAINED_MAX, added, expired, is_root, live_snapshots, unpinned
from checkpointer.core.keys import StoredPack
from checkpointer.core.retention import HOUR_MS, Retention, kept
from checkpointer.core.roots import Roots
from shared.errors import StaleEpoch
from shared.workspace import Base, Pin, Retained, SnapshotRef, WorkspaceHead

NOW_MS = 1_000 * HOUR_MS


def ref(number: int, at_ms: int = 0) -> SnapshotRef:
    """Return a snapshot."""
    return SnapshotRef(id=f"{number:064x}", pack=f"acme/session01/p{number}", at_ms=at_ms)


def entry(
    number: int, *, epoch: int = 1, task: str = "", at_ms: int = 0, name: str = ""
) -> Retained:
    """Return a retained snapshot, by default one of long ago."""
    return Retained(snapshot=ref(number, at_ms), epoch=epoch, task=task, name=name)


def head_of(*entries: Retained, pins: tuple[int, ...] = ()) -> WorkspaceHead:
    """Return a workspace head."""
    return WorkspaceHead(
        session="session01",
        tenant="acme",
        pool="default",
        retained=entries,
        pins=tuple(Pin(snapshot=ref(number).id, session=f"fork-{number}") for number in pins),
    )


def numbers(entries: tuple[Retained, ...]) -> list[int]:
    """Return which snapshots these are."""
    return [int(one.snapshot.id, 16) for one in entries]


def test_the_last_of_each_of_the_last_tasks_stays() -> None:
    """What was taken in the middle of a task goes with its end; what was taken without one counts by itself."""
    head = head_of(
        *(entry(n, task=f"task-{n // 3}") for n in range(12)),
        entry(12),
        entry(13),
        entry(14, task="t"),
    )
    roots = Roots(epoch=1, heads=(ref(14),))

    assert numbers(kept(head, roots, NOW_MS, Retention(last=5, hours=0))) == [8, 11, 12, 13, 14]


def test_the_newest_of_each_hour_of_a_day_stays() -> None:
    """Those of a day ago and more go, but for the last ones."""
    entries = [entry(n, at_ms=NOW_MS - (100 - n) * HOUR_MS // 2) for n in range(100)]
    roots = Roots(epoch=1, heads=(ref(99),))
    stay = numbers(kept(head_of(*entries), roots, NOW_MS, Retention(last=2, hours=24)))

    assert stay == [*range(53, 99, 2), 98, 99]


def test_heads_names_and_pins_stay_however_old() -> None:
    """Each for its own reason."""
    head = head_of(*(entry(n, name="good" if n == 2 else "") for n in range(40)), pins=(5,))
    roots = Roots(epoch=1, heads=(ref(1), ref(39)))

    assert numbers(kept(head, roots, NOW_MS)) == [1, 2, 5, *range(30, 40)]


def test_what_may_still_be_committed_stays() -> None:
    """All that an owner has added since the newest head, as long as nobody else owns the session."""
    head = head_of(entry(0), *(entry(n, task="t") for n in range(1, 5)))
    policy = Retention(last=0, hours=0)

    assert numbers(kept(head, Roots(epoch=1, heads=(ref(0),)), NOW_MS, policy)) == [0, 1, 2, 3, 4]
    assert numbers(kept(head, Roots(epoch=1, heads=(ref(2),)), NOW_MS, policy)) == [2, 3, 4]
    assert numbers(kept(head, Roots(epoch=2, heads=(ref(0),)), NOW_MS, policy)) == [0]
    assert numbers(kept(head, Roots(epoch=1), NOW_MS, policy)) == [0, 1, 2, 3, 4]


def test_what_a_zombie_adds_after_its_successor_goes() -> None:
    """Nobody ever built on it, and it takes no place among the last."""
    head = head_of(entry(0), entry(1, epoch=2), entry(2, epoch=1), entry(3, epoch=2))
    roots = Roots(epoch=2, heads=(ref(3),))

    assert numbers(kept(head, roots, NOW_MS)) == [0, 1, 3]


def test_of_an_ended_session_only_what_is_pinned_stays() -> None:
    """Named or not; and nothing is added any more."""
    head = head_of(entry(0, name="good"), entry(1), entry(2), pins=(1,))
    gone = expired(head, Roots(ended=True), NOW_MS)

    assert gone.deleted
    assert numbers(gone.retained) == [1]
    assert expired(unpinned(gone, "fork-1"), Roots(ended=True), NOW_MS).retained == ()
    for ended, roots in ((gone, Roots(epoch=1)), (head, Roots(ended=True))):
        with pytest.raises(StaleEpoch, match="has ended"):
            added(ended, entry(3), roots, NOW_MS)


def test_each_collection_fences_who_read_before() -> None:
    """The head it writes differs from the one it read, also where nothing expires."""
    head = head_of(entry(0))
    once = expired(head, Roots(epoch=1, heads=(ref(0),)), NOW_MS)

    assert once.retained == head.retained
    assert once.gc_seq == head.gc_seq + 1


def test_a_head_does_not_grow_for_ever() -> None:
    """Where no collector comes by, adding lets go what a collector would; what is added stays in any case."""
    head, roots = head_of(), Roots(epoch=1, heads=(ref(0),))
    for number in range(2 * RETAINED_MAX):
        roots = replace(roots, heads=(ref(max(0, number - 1)),))
        head = added(head, entry(number), roots, NOW_MS)
        assert numbers(head.retained)[-1] == number
        assert numbers(head.retained)[-2:-1] in ([], [number - 1])
    assert len(head.retained) <= RETAINED_MAX


def test_a_fork_s_base_is_a_root_until_the_fork_is_deleted() -> None:
    """What it builds on first is its parent's."""
    fork = replace(head_of(), base=Base(session="session00", snapshot=ref(7)))
    roots = Roots(epoch=1, heads=(ref(7),))

    assert is_root(fork, ref(7).id)
    assert not is_root(fork, ref(8).id)
    assert live_snapshots(fork, roots) == (ref(7),)
    assert live_snapshots(expired(fork, Roots(ended=True), NOW_MS), Roots(ended=True)) == ()


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["", "a", "b"]), st.integers(0, 60)),
        max_size=30,
    ),
    st.sets(st.integers(0, 29), max_size=2),
    st.sets(st.integers(0, 29), max_size=3),
    st.integers(1, 5),
)
@example(
    [(1, "a", 0), (2, "b", 0), (1, "a", 0), (2, "b", 0)], {2}, set(), 1
)  # a head among zombies
def test_retention_takes_no_root(
    entries: list[tuple[int, str, int]], heads: set[int], pins: set[int], epoch: int
) -> None:
    """Neither a head, nor what is pinned, nor the newest of an owner; and taking twice takes nothing more."""
    head = head_of(
        *(
            entry(n, epoch=of, task=task, at_ms=NOW_MS - age * HOUR_MS)
            for n, (of, task, age) in enumerate(entries)
        ),
        pins=tuple(sorted(pins)),
    )
    roots = Roots(epoch=epoch, heads=tuple(ref(n) for n in sorted(heads)))
    stay = set(numbers(kept(head, roots, NOW_MS)))
    there = set(range(len(entries)))

    assert (heads | pins) & there <= stay
    newest = [n for n, (of, _, _) in enumerate(entries) if of >= epoch]
    last_head = max(heads & there, default=-1)
    assert {n for n in newest if n > last_head} <= stay
    again = replace(head, retained=kept(head, roots, NOW_MS))
    assert kept(again, roots, NOW_MS) == again.retained


def test_a_sweep_that_would_take_much_says_so() -> None:
    """More than 60 % of a session's bytes."""
    packs = [StoredPack(f"acme/session01/{n}", 10, 0) for n in range(10)]
    live = {pack.key for pack in packs[:4]}

    assert not sweep(packs, live).is_much
    assert sweep(packs, {*list(live)[1:]}).is_much
    assert sweep(packs, live).garbage == tuple(packs[4:])
    assert not sweep([], set()).is_much
