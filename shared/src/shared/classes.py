"""Classes of work: in which order free workers take what waits."""

from __future__ import annotations

from shared import headers
from shared.errors import InvalidMessage

CLASSES = ("recovery", "interactive", "batch")
"""Classes of work, most urgent first. `recovery` is ours: no mapping of a client's subject leads there."""
CLIENT_CLASSES = ("interactive", "batch")


def is_more_urgent(klass: str, than: str) -> bool:
    """Return whether one class of work goes before another; an unknown one goes before none."""
    return klass in CLASSES and (than not in CLASSES or CLASSES.index(klass) < CLASSES.index(than))


def most_urgent(first: str, *others: str) -> str:
    """Return the most urgent of some classes."""
    for other in others:
        first = other if is_more_urgent(other, first) else first
    return first


def asked_class(header: str | None) -> str | None:
    """Return the class that a session's task asks for; None: the session's own.

    Raises:
        InvalidMessage: no class that clients may ask for.
    """
    if header is None or header in CLIENT_CLASSES:
        return header
    known = " or ".join(CLIENT_CLASSES)
    raise InvalidMessage(f"header {headers.CLASS}: {known} expected, got {header[:40]!r}")
