"""Whom a fault hits, and what damage it does, is the dice's choice alone."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from chaos.nemesis.choice import flipped, flips, leader_of_most, so_many_of, some_of
from chaos.nemesis.weather import LOSSES_MAX, RETRANSMIT_S, lossy

names = st.lists(st.text("abc-0123", min_size=1, max_size=6), unique=True, max_size=20)
seeds = st.integers(0, 2**32)


@given(names, st.floats(0.05, 1.0), seeds)
def test_a_share_is_at_least_one_and_never_all(found: list[str], share: float, seed: int) -> None:
    """Somebody is hit, and somebody is left to take over; with fewer than two nobody can be."""
    chosen = some_of(found, share, Random(seed))

    assert set(chosen) <= set(found)
    assert len(set(chosen)) == len(chosen)
    if len(found) < 2:
        assert chosen == ()
    else:
        assert len(chosen) == min(max(1, round(share * len(found))), len(found) - 1)


@given(names, st.integers(0, 8), seeds)
def test_the_order_in_which_targets_are_found_changes_nothing(
    found: list[str], count: int, seed: int
) -> None:
    """The same seed hits the same, however the table happens to be sorted."""
    assert so_many_of(found, count, Random(seed)) == so_many_of(found[::-1], count, Random(seed))


@given(
    st.dictionaries(st.sampled_from(["Q0", "Q1", "Q2"]), st.sampled_from(["n1", "n2", "n3"])), seeds
)
def test_the_leader_of_most_streams_leads_no_fewer_than_another(
    leaders: dict[str, str], seed: int
) -> None:
    """And where nobody leads, nobody is named."""
    chosen = leader_of_most(leaders, Random(seed))

    if not leaders:
        assert chosen is None
        return
    led = list(leaders.values())
    assert chosen in led
    assert led.count(chosen) == max(map(led.count, led))


@given(st.binary(min_size=1, max_size=300), st.integers(1, 12), seeds)
def test_so_many_bits_are_turned_over_and_no_others(data: bytes, count: int, seed: int) -> None:
    """Each in a byte of its own, so that no two take each other back."""
    damaged = bytearray(data)
    for offset, bit in flips(len(data), count, Random(seed)):
        damaged[offset] = flipped(damaged[offset], bit)

    different = sum((old ^ new).bit_count() for old, new in zip(data, damaged, strict=True))
    assert different == min(count, len(data))


@given(st.floats(0, 0.5), st.floats(0, 0.3), seeds)
def test_nothing_is_under_way_for_longer_than_its_losses_take(
    loss: float, jitter_s: float, seed: int
) -> None:
    """And never for less than nothing."""
    shape = lossy(Random(seed), loss=loss, jitter_s=jitter_s)
    longest_s = jitter_s + RETRANSMIT_S * (2**LOSSES_MAX - 1)

    assert all(0 <= shape() <= longest_s for _ in range(50))


def test_of_twenty_chunks_one_stalls() -> None:
    """At 5 % loss; the others come within the jitter."""
    shape = lossy(Random(1), loss=0.05, jitter_s=0.1)
    late = sum(shape() > 0.1 for _ in range(4000))

    assert 150 <= late <= 250
