"""Drawing ids whose home has a leader."""

from __future__ import annotations

import itertools

import pytest

from shared.ids import SHARDS, home
from shared.shards import BELIEVED_S, DRAWS_MAX, Homes, ShardsDown

NOW = 50.0


def drawn(homes: Homes, now: float = NOW) -> set[int]:
    """Return the homes of many ids."""
    numbers = itertools.count()
    return {home(homes.draw(lambda: f"task-{next(numbers):06d}", now)) for _ in range(100)}


def test_nothing_said_leaves_all_homes() -> None:
    """Ids spread as they come."""
    assert drawn(Homes()) == {0, 1, 2}


@pytest.mark.parametrize("down", [(0,), (1,), (0, 2)])
def test_no_id_gets_a_home_that_is_down(down: tuple[int, ...]) -> None:
    """As long as it is believed; then again."""
    homes = Homes()
    homes.heard(ShardsDown(down=down), NOW)

    assert drawn(homes) == {0, 1, 2} - set(down)
    assert drawn(homes, NOW + BELIEVED_S + 0.01) == {0, 1, 2}


def test_what_several_say_counts_together_and_all_down_counts_as_none() -> None:
    """Any home must do when none is up; shards that do not exist are no news."""
    homes = Homes()
    homes.heard(ShardsDown(down=(1, 7, -1)), NOW)
    homes.heard(ShardsDown(down=(2,)), NOW + 0.1)
    before = drawn(homes, NOW + 0.2)
    homes.heard(ShardsDown(down=(0,)), NOW + 0.3)

    assert before == {0}
    assert drawn(homes, NOW + 0.4) == set(range(SHARDS))


def test_drawing_ends() -> None:
    """A maker that knows one id only gives that one."""
    homes = Homes()
    homes.heard(ShardsDown(down=(home("task-000001"),)), NOW)
    asked = itertools.count()

    def make() -> str:
        assert next(asked) <= DRAWS_MAX
        return "task-000001"

    assert homes.draw(make, NOW) == "task-000001"
