"""Randomness as an argument: everything that a run decides comes from one seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Dice(Protocol):
    """A source of random numbers; `random.Random(seed)` is one."""

    def random(self) -> float:
        """Return a number from 0 up to 1."""
        ...

    def uniform(self, a: float, b: float, /) -> float:
        """Return a number between two."""
        ...

    def expovariate(self, lambd: float, /) -> float:
        """Return a waiting time, with mean 1 / lambd."""
        ...

    def randrange(self, stop: int, /) -> int:
        """Return a whole number from 0 up to `stop`."""
        ...

    def choice(self, seq: Sequence[T], /) -> T:
        """Return one of them."""
        ...

    def sample(self, population: Sequence[T], k: int, /) -> list[T]:
        """Return `k` different ones of them."""
        ...
