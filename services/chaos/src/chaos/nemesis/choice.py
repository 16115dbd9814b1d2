"""Whom a fault hits: decided by the dice alone, so that a seed hits the same again. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from chaos.core.dice import Dice


def some_of(names: Collection[str], share: float, dice: Dice) -> tuple[str, ...]:
    """Return a share of the names, at least one and never all, in order; none where there are fewer than two.

    Args:
        names: of what can be hit; their order says nothing.
        share: above 0.
        dice: draws.
    """
    return so_many_of(names, max(1, round(share * len(names))), dice)


def so_many_of(names: Collection[str], count: int, dice: Dice) -> tuple[str, ...]:
    """Return `count` of the names, never all of them, in order."""
    count = min(count, len(names) - 1)
    return tuple(sorted(dice.sample(sorted(names), count))) if count > 0 else ()


def leader_of_most(leaders: Mapping[str, str], dice: Dice) -> str | None:
    """Return the server that leads most streams; the dice choose among equals. None: nobody leads.

    Args:
        leaders: stream -> its leader.
        dice: draws.
    """
    if not leaders:
        return None
    led = Counter(leaders.values())
    most = max(led.values())
    return dice.choice(sorted(server for server, count in led.items() if count == most))


def flips(size_bytes: int, count: int, dice: Dice) -> tuple[tuple[int, int], ...]:
    """Return where bits are to be flipped in a file: (offset, bit), each byte once at most."""
    offsets = dice.sample(range(size_bytes), min(count, size_bytes))
    return tuple((offset, dice.randrange(8)) for offset in sorted(offsets))


def flipped(byte: int, bit: int) -> int:
    """Return a byte with one bit turned over."""
    return byte ^ (1 << bit)
