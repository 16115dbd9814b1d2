"""A task's start that may have to wait: until user code may run, or until there is room for a process.

Where sandboxes share a user, one that forks without end uses up, for a moment, the processes that all of them may have: nothing
of the task has run then, so that its start is tried again.
"""

import time
from collections.abc import Callable

AGAIN_S = 2.0
"""For so long a start that found no room is tried again; whoever takes all room is ended sooner."""
_PAUSES_S = (0.01, 0.2)
"""The first and the longest pause between two tries."""

Begin = Callable[[], None]


class Beginning:
    """Of one task: nothing that waits, or its next try."""

    def __init__(self) -> None:
        """Nothing waits."""
        self._begin: Begin | None = None
        self._due_s = 0.0
        self._pause_s = _PAUSES_S[0]
        self._end_s: float | None = None

    @property
    def waiting(self) -> bool:
        """Whether there is something to begin."""
        return self._begin is not None

    def soon(self, begin: Begin) -> None:
        """Takes what may begin at once."""
        self._begin, self._due_s = begin, 0.0

    def again(self, begin: Begin) -> bool:
        """Takes what could not begin.

        Returns:
            False: it was tried for long enough, and is not taken.
        """
        now_s = time.monotonic()
        if self._end_s is None:
            self._end_s = now_s + AGAIN_S
        if now_s >= self._end_s:
            return False
        self._begin, self._due_s = begin, min(now_s + self._pause_s, self._end_s)
        self._pause_s = min(2 * self._pause_s, _PAUSES_S[1])
        return True

    def wait_s(self) -> float | None:
        """Seconds until something is due; None: nothing waits."""
        return None if self._begin is None else max(0.0, self._due_s - time.monotonic())

    def take_due(self) -> Begin | None:
        """Gives what is due away."""
        if self._begin is None or time.monotonic() < self._due_s:
            return None
        return self.take()

    def take(self) -> Begin | None:
        """Gives away what waits, due or not."""
        begin, self._begin = self._begin, None
        return begin
