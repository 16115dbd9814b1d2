"""The count of pods for each claim shows what is too much, and what was not seen."""

from __future__ import annotations

from shared.testing.pods import PodCount


def worked_off(claims: int, stock: int) -> PodCount:
    """Return the count after so many claims, each of one pod, with the stock whole again."""
    count = PodCount()
    for number in range(claims):
        count.alive("node-1", [f"p-{number + slot}" for slot in range(stock)])
        count.gone(f"p-{number}")
    count.alive("node-1", [f"p-{claims + slot}" for slot in range(stock)])
    return count


def test_one_pod_for_each_claim_is_one_whatever_the_stock() -> None:
    """What waits for later claims is not counted."""
    for stock in (0, 1, 6):
        assert worked_off(100, stock).per_claim(100) == 1.0


def test_pods_too_many_show_also_if_they_ended_before_a_node_named_them() -> None:
    """Six of a hundred are above the bound of 1.05."""
    count = worked_off(100, 4)
    for number in range(3):
        count.gone(f"extra-{number}")
    for number in range(3, 6):
        count.alive("node-2", [f"extra-{number}"])
    count.alive("node-2", [])

    assert count.per_claim(100) == 1.06


def test_a_pod_too_many_that_still_lives_shows_in_the_stock() -> None:
    """It is no claim's: whoever counts waits until the stock is what it should be."""
    count = worked_off(100, 4)
    count.alive("node-2", ["extra"])

    assert count.living == 5
    assert count.per_claim(100) == 1.0


def test_pods_that_were_not_seen_show() -> None:
    """A judge that is half blind says so, and not that all is well."""
    assert worked_off(90, 4).per_claim(100) < 1.0
