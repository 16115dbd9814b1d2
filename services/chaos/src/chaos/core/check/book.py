"""What checkers find, counted by kind; the first of each kind are kept as evidence."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

Kind = Literal["lost", "dup", "fork", "stale", "zombie", "conserve", "order", "broken", "false"]
ZERO: tuple[Kind, ...] = ("lost", "dup", "fork", "stale", "zombie", "conserve", "order", "broken")
"""What makes a run's verdict false, each of it."""
MEANING: dict[Kind, str] = {
    "lost": "acknowledged, and not there (any more)",
    "dup": "done twice",
    "fork": "two histories of one session",
    "stale": "a read that does not hold what was acknowledged before it",
    "zombie": "a write of a revoked epoch that was accepted",
    "conserve": "accepted, and neither finished nor refused nor under way",
    "order": "not in the order of its session",
    "broken": "a promise that a fault itself has looked at",
    "false": "an owner fenced without a fault",
}
KEPT = 5


class Finding(msgspec.Struct, frozen=True):
    """One thing that must not be, with its evidence."""

    kind: Kind
    session: str
    what: str


class Book:
    """Findings so far, and how much was looked at."""

    def __init__(self) -> None:
        """Begin empty."""
        self.counts: Counter[Kind] = Counter()
        self.findings: list[Finding] = []
        self.looked_at: Counter[str] = Counter()
        """How many of what the checkers looked at: a check that looked at nothing proves nothing."""

    def find(self, kind: Kind, session: str, what: str) -> None:
        """Enter a finding."""
        self.counts[kind] += 1
        if self.counts[kind] <= KEPT:
            self.findings.append(Finding(kind, session, what))

    def look(self, at: str, count: int = 1) -> None:
        """Count what was looked at."""
        self.looked_at[at] += count
