"""Which pool-managers live, and who of them acts first.

Every pool-manager sees everything and may do everything: each act is a compare-and-set. So that they do not race for
each, all agree by arithmetic on who goes first (rendezvous hashing); the others follow after a grace.
"""

from __future__ import annotations

import hashlib

from shared.messages import Message

DEAD_AFTER_S = 1.5
"""A pool-manager that was silent for so long is counted out."""
BEAT_S = 0.4
SETTLE_S = 1.0
"""Two that start together do not know each other before their first heartbeats."""
GRACE_S = 0.5
"""How long the next one waits for the one before."""


class ManagerBeat(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A pool-manager's heartbeat to the others."""

    manager: str
    leaving: bool = False


class Peers:
    """The living pool-managers, as this one hears them."""

    def __init__(self, me: str, started: float = float("-inf")) -> None:
        """Start alone, as `me`, at `started` (monotonic clock)."""
        self.me = me
        self._started = started
        self._seen: dict[str, float] = {}

    def restart(self, now: float) -> None:
        """This one was deaf for a while: it must listen anew to know who lives."""
        self._started = now

    def heard(self, beat: ManagerBeat, now: float) -> None:
        """Take in a heartbeat."""
        if beat.manager == self.me:
            return
        if beat.leaving:
            self._seen.pop(beat.manager, None)
        else:
            self._seen[beat.manager] = now

    def alive(self, now: float) -> list[str]:
        """Return the others that live."""
        for name in [name for name, seen in self._seen.items() if now - seen > DEAD_AFTER_S]:
            del self._seen[name]
        return list(self._seen)

    def is_settled(self, now: float) -> bool:
        """Return whether this one has listened long enough to have heard all others that live."""
        return now - self._started >= SETTLE_S

    def rank(self, key: str, now: float) -> int:
        """Return how many act before this one on `key`: 0 for the first."""
        others = self.alive(now)
        if not others:
            return 0
        mine = _weight(self.me, key)
        return sum(_weight(other, key) > mine for other in others)

    def is_first(self, key: str, now: float) -> bool:
        """Return whether this one acts first on `key`."""
        return self.rank(key, now) == 0

    def may_act(self, key: str, *, since: float, now: float) -> bool:
        """Return whether it is this one's turn to do what is due `since` then."""
        return now >= since + self.rank(key, now) * GRACE_S


def _weight(manager: str, key: str) -> bytes:
    return hashlib.blake2b(f"{manager}|{key}".encode(), digest_size=8).digest()
