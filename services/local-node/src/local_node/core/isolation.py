"""Which isolation class a pod gets: the one that its pool names, or the strongest, but never less. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from shared.errors import Rejected
from shared.pools import ISOLATION_CLASSES

AUTO = "auto"
ONLY_WHEN_NAMED = ("process",)
"""No isolation worth the name: for trusted code and tests."""


def choose(asked: str, available: Mapping[str, str]) -> str:
    """Return the class that a pod gets.

    Args:
        asked: a class, or `auto` for the strongest that there is.
        available: class -> empty if the node has it, else why not.

    Raises:
        Rejected: the class is unknown or not there, or `auto` finds none that isolates; says why.
    """
    if asked == AUTO:
        for isolation in reversed(ISOLATION_CLASSES):
            if available.get(isolation, "unknown") == "" and isolation not in ONLY_WHEN_NAMED:
                return isolation
        raise Rejected(f"isolation auto: this node has no class that isolates ({_why(available)})")
    if asked not in ISOLATION_CLASSES:
        raise Rejected(
            f"isolation {asked!r}: unknown class; there are {', '.join(ISOLATION_CLASSES)}"
        )
    missing = available.get(asked, "unknown to this node")
    if missing:
        raise Rejected(f"isolation {asked}: not on this node: {missing}")
    return asked


def _why(available: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in available.items() if reason)
