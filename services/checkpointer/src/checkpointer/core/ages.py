"""How old the newest snapshot of each session is that asks for saves: what the death of its node would take. Pure."""

from __future__ import annotations

import msgspec

FORGET_S = 150.0
"""A session that asked for nothing for so long is not here any more, or idle: then nothing is unsaved."""


class _Age(msgspec.Struct):
    asked_at: float
    """Newest ask."""
    unsaved_since: float | None
    """Its newest snapshot, or its first ask, while a save of it is under way or failed; None: all is saved."""
    saved_at: float | None = None
    task: tuple[str, int] = ("", 0)
    """Task and attempt of the newest snapshot."""
    is_late: bool = False
    """Said already."""


class Ages:
    """Sessions by name. Times are one monotonic clock's, seconds."""

    def __init__(self, bound_s: float) -> None:
        """Call a snapshot late that is older than `bound_s`."""
        self._bound_s = bound_s
        self._ages: dict[str, _Age] = {}

    def asked(self, session: str, now: float) -> None:
        """A save begins."""
        age = self._ages.get(session)
        if age is None:
            self._ages[session] = _Age(now, now)
            return
        age.asked_at = now
        if age.unsaved_since is None:
            age.unsaved_since = now if age.saved_at is None else age.saved_at

    def saved(self, session: str, task: tuple[str, int], now: float) -> float | None:
        """A save has ended well; return the seconds since the one before of the same task, if there was one."""
        age = self._ages.setdefault(session, _Age(now, None))
        before, same = age.saved_at, age.task == task and task[0] != ""
        age.unsaved_since, age.saved_at, age.task, age.is_late = None, now, task, False
        return now - before if same and before is not None else None

    def oldest_s(self, now: float) -> float:
        """Return the age of the oldest snapshot of a session whose save is not done; 0: all are."""
        self._forget(now)
        return max(
            (
                now - age.unsaved_since
                for age in self._ages.values()
                if age.unsaved_since is not None
            ),
            default=0.0,
        )

    def late(self, now: float) -> tuple[int, list[tuple[str, float]]]:
        """Return how many sessions are past the bound, and those not told yet: (session, age in seconds)."""
        count, fresh = 0, []
        for session, age in self._ages.items():
            if age.unsaved_since is None or now - age.unsaved_since <= self._bound_s:
                continue
            count += 1
            if not age.is_late:
                age.is_late = True
                fresh.append((session, now - age.unsaved_since))
        return count, fresh

    def _forget(self, now: float) -> None:
        for session in [s for s, age in self._ages.items() if now - age.asked_at > FORGET_S]:
            del self._ages[session]
