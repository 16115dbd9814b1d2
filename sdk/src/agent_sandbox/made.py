"""Objects that were made for one task alone."""

from __future__ import annotations


class Made:
    """Their ids, and whether the task may need them.

    They are dropped with the task's result, or at once where it surely was not accepted. A task that may have been is
    run later, perhaps, and finds them there; nobody's go by their age.
    """

    def __init__(self, *ids: str) -> None:
        """Begin with these."""
        self.ids = list(ids)
        self.is_sent = False
        """The publish has begun: an error without a definite word, or none at all, says nothing about the task."""

    def take(self) -> tuple[str, ...]:
        """Return the ids, for whoever drops them now: once."""
        ids, self.ids = tuple(self.ids), []
        return ids
