"""Counts pods from what nodes say of them: how many were started for each claim. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class PodCount:
    """Every pod that any node ever named, alive or at its end."""

    def __init__(self) -> None:
        """Know of none."""
        self.seen: set[str] = set()
        self.there: dict[str, frozenset[str]] = {}
        """Node -> its pods now."""

    def alive(self, node: str, pods: Iterable[str]) -> None:
        """A node says which pods it has."""
        self.there[node] = frozenset(pods)
        self.seen |= self.there[node]

    def gone(self, pod: str) -> None:
        """A node says that a pod has ended; it may have lived too shortly to be named before."""
        self.seen.add(pod)

    @property
    def living(self) -> int:
        """How many pods there are now."""
        return sum(len(pods) for pods in self.there.values())

    def per_claim(self, claims: int) -> float:
        """Return how many pods were started for each claim, once every claim's pod has ended and the stock is whole.

        The stock that is there now is nobody's yet. Each claim took a pod for good, so a figure below 1 means that
        pods were not seen, and then there may be too many among those as well.
        """
        return (len(self.seen) - self.living) / claims
