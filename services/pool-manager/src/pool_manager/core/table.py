"""The table of sessions that have not ended, kept from records as they are stored.

It is a view: every act on it is a compare-and-set on the sequence that stands here, so a stale row costs a try.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator

import msgspec

from shared.record import ENDED, OWNED, Record

ENDED_KEPT = 10_000
"""Newest ended sessions that are remembered: for listings, and so that a late reading does not revive one."""


def key_of(tenant: str, session: str) -> str:
    """Return the key of a session."""
    return f"{tenant}.{session}"


class Row(msgspec.Struct):
    """A session and when this pool-manager first saw it in its present state."""

    key: str
    record: Record
    seq: int
    """Stream sequence of the record: what a compare-and-set expects."""
    since: float
    """Monotonic clock at which (state, owner, epoch) was first seen."""
    stored_ms: int = 0
    """The stream's clock of that write; 0: not known."""


class Table:
    """Rows by session, and the few of them that need looking after by state."""

    def __init__(self) -> None:
        """Start empty."""
        self._rows: dict[str, Row] = {}
        self._ended: OrderedDict[str, Row] = OrderedDict()
        self._owners: dict[str, str] = {}
        self._owned_in: Counter[str] = Counter()
        self.open_of: Counter[str] = Counter()
        """Tenant -> its sessions that have not ended."""
        self.owned: dict[str, Row] = {}
        self.queued: dict[str, Row] = {}
        self.waiting: dict[str, Row] = {}

    def __len__(self) -> int:
        """Return how many sessions have not ended."""
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        """Go through the sessions that have not ended."""
        return iter(list(self._rows.values()))

    def get(self, key: str) -> Row | None:
        """Return the row of a session that has not ended."""
        return self._rows.get(key)

    def ended(self, key: str) -> Row | None:
        """Return the row of a session that ended lately."""
        return self._ended.get(key)

    def newest_ended(self) -> Iterator[Row]:
        """Go through the sessions that ended lately."""
        return iter(list(self._ended.values()))

    def owned_by(self, worker: str) -> Row | None:
        """Return the session that a worker owns."""
        key = self._owners.get(worker)
        return None if key is None else self.owned.get(key)

    def pods_with_files(self) -> set[str]:
        """Return the pods whose files are a session's, as of now or once they are rescued."""
        rows = self.owned.values()
        rescued = {row.record.rescue_pod for row in rows if row.record.state == "rescuing"}
        return rescued | self._owners.keys()

    def owned_count(self, pool: str) -> int:
        """Return how many sessions of a pool have an owner."""
        return self._owned_in[pool]

    def apply(self, record: Record, seq: int, *, now: float, stored_ms: int = 0) -> Row | None:
        """Take in a record as it was stored; return its row, or None if it is older than what is known."""
        key = key_of(record.tenant, record.session)
        before = self._rows.get(key) or self._ended.get(key)
        if before is not None and before.seq >= seq:
            return None
        since = now
        if before is not None and _same_hold(before.record, record):
            since = before.since
        row = Row(key, record, seq, since, stored_ms)
        self._drop(key)
        if record.state in ENDED:
            self._ended[key] = row
            if len(self._ended) > ENDED_KEPT:
                self._ended.popitem(last=False)
            return row
        self._rows[key] = row
        self.open_of[record.tenant] += 1
        if record.state in OWNED and record.owner:
            self.owned[key] = row
            self._owners[record.owner] = key
            self._owned_in[record.pool] += 1
        elif record.state == "queued":
            self.queued[key] = row
        elif record.state == "waiting":
            self.waiting[key] = row
        return row

    def _drop(self, key: str) -> None:
        if (gone := self._rows.pop(key, None)) is not None:
            self.open_of[gone.record.tenant] -= 1
            if not self.open_of[gone.record.tenant]:
                del self.open_of[gone.record.tenant]
        self._ended.pop(key, None)
        self.queued.pop(key, None)
        self.waiting.pop(key, None)
        row = self.owned.pop(key, None)
        if row is not None:
            self._owned_in[row.record.pool] -= 1
            if self._owners.get(row.record.owner or "") == key:
                del self._owners[row.record.owner or ""]


def _same_hold(before: Record, after: Record) -> bool:
    return (
        before.state == after.state and before.owner == after.owner and before.epoch == after.epoch
    )
