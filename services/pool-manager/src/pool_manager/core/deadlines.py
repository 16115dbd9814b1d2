"""When the tasks in inboxes are too old to run.

An entry never changes, so each is read once, however long it waits. What its owner has passed is forgotten.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from pool_manager.core.backlog import deadline_ms
from pool_manager.core.ends import Came

TRACKED_MAX = 40_000
"""Entries of all inboxes, the oldest of each."""
TENANT_MAX = 10_000
"""Entries of one tenant: its backlog keeps no other's deadlines from being known."""
PER_SESSION_MAX = 256
"""Entries of one session that are tracked at a time, the oldest."""


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """An inbox entry that waits, and until when."""

    tenant: str
    session: str
    task: str
    seq: int
    accepted_ms: int
    deadline_ms: int
    unknown_ms: int | None = None
    """When it is refused, if its session has no record by then."""
    replay_of: str = ""

    @property
    def came(self) -> Came:
        """How it came."""
        return Came(self.accepted_ms, self.replay_of)

    @property
    def look_ms(self) -> int:
        """When it has to be looked at."""
        return (
            self.deadline_ms if self.unknown_ms is None else min(self.deadline_ms, self.unknown_ms)
        )


class _Inbox(msgspec.Struct):
    dues: dict[int, Due] = msgspec.field(default_factory=dict)
    cursor: int = 0
    """Stream sequence up to which entries were read."""
    seen: tuple[int, int] = (-1, -1)
    """(entries, position) at the last complete look."""


class Deadlines:
    """The deadlines of waiting entries, by session."""

    def __init__(self) -> None:
        """Start empty."""
        self._inboxes: dict[str, _Inbox] = {}
        self._counts: Counter[str] = Counter()
        """Tenant -> its tracked entries."""

    def __len__(self) -> int:
        """Return how many entries are tracked."""
        return self._counts.total()

    def keep(self, keys: set[str], of_shard: set[str]) -> None:
        """Forget the inboxes of a shard that are empty by now.

        Args:
            keys: sessions whose inbox holds something.
            of_shard: all tracked sessions of the same shard.
        """
        for key in of_shard - keys:
            self.forget(key)

    def keys(self) -> list[str]:
        """Return the sessions of which anything is tracked or remembered."""
        return list(self._inboxes)

    def is_read(self, key: str, entries: int, position: int) -> bool:
        """Return whether a look into the inbox would find nothing that is not known."""
        inbox = self._inboxes.get(key)
        return inbox is not None and inbox.seen == (entries, position)

    def was_read(self, key: str, entries: int, position: int) -> None:
        """All of an inbox beyond `position` was read; it had so many entries."""
        self._inboxes.setdefault(key, _Inbox()).seen = (entries, position)

    def passed(self, key: str, position: int) -> int:
        """Everything up to `position` has its result; return the sequence after which to read on."""
        inbox = self._inboxes.setdefault(key, _Inbox())
        for seq in [seq for seq in inbox.dues if seq <= position]:
            self._remove(key, seq)
        return max(inbox.cursor, position)

    def has_room(self, key: str) -> bool:
        """Return whether one more entry of a session may be tracked."""
        inbox = self._inboxes.get(key)
        held = len(inbox.dues) if inbox else 0
        of_tenant = self._counts[_tenant(key)]
        return held < PER_SESSION_MAX and of_tenant < TENANT_MAX and len(self) < TRACKED_MAX

    def read(self, key: str, due: Due) -> None:
        """An entry was read, or is known better."""
        inbox = self._inboxes.setdefault(key, _Inbox())
        inbox.cursor = max(inbox.cursor, due.seq)
        self._counts[_tenant(key)] += due.seq not in inbox.dues
        inbox.dues[due.seq] = due

    def overdue(self, now_ms: int) -> dict[str, list[Due]]:
        """Return, by session, the entries that have to be looked at, the oldest first."""
        found: dict[str, list[Due]] = {}
        for key, inbox in self._inboxes.items():
            dues = sorted(
                (due for due in inbox.dues.values() if due.look_ms <= now_ms),
                key=lambda due: due.seq,
            )
            if dues:
                found[key] = dues
        return found

    def of(self, key: str) -> list[Due]:
        """Return a session's tracked entries, the oldest first."""
        inbox = self._inboxes.get(key)
        return [inbox.dues[seq] for seq in sorted(inbox.dues)] if inbox else []

    def done(self, key: str, seq: int) -> None:
        """An entry has its result."""
        if (inbox := self._inboxes.get(key)) is not None:
            self._remove(key, seq)
            inbox.seen = (-1, -1)  # it may be gone: as many entries as before are not the same ones

    def forget(self, key: str) -> None:
        """A session's inbox is empty, or will be seen to otherwise."""
        inbox = self._inboxes.pop(key, None)
        if inbox is not None:
            self._uncount(key, len(inbox.dues))

    def _remove(self, key: str, seq: int) -> None:
        if self._inboxes[key].dues.pop(seq, None) is not None:
            self._uncount(key, 1)

    def _uncount(self, key: str, count: int) -> None:
        tenant = _tenant(key)
        self._counts[tenant] -= count
        if not self._counts[tenant]:
            del self._counts[tenant]


def _tenant(key: str) -> str:
    return key.split(".", 1)[0]


def due_of(who: tuple[str, str, str], place: tuple[int, int], body: bytes, replay_of: str) -> Due:
    """Return when an entry is too old.

    Args:
        who: (tenant, session, task).
        place: (stream sequence, the stream's clock when it was accepted).
        body: as it came.
        replay_of: of what it is a replay.
    """
    tenant, session, task = who
    seq, accepted_ms = place
    return Due(
        tenant=tenant,
        session=session,
        task=task,
        seq=seq,
        accepted_ms=accepted_ms,
        deadline_ms=deadline_ms(body, accepted_ms),
        replay_of=replay_of,
    )
