"""Which tenants have as much as they may, and which inbox entries are too many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from shared.limits import OBJECT_CHUNK_BYTES_MAX
from shared.quota import TenantFull

Session = tuple[str, str]
"""(tenant, session)"""


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one tenant; those in `shared.limits`, unless a pool-manager is set otherwise."""

    sessions_max: int
    inbox_entries_max: int
    tenant_inbox_entries_max: int


def full_tenants(open_sessions: Mapping[str, int], quotas: Quotas) -> tuple[TenantFull, ...]:
    """Return the tenants that get no new session.

    Args:
        open_sessions: tenant -> its sessions that have not ended.
        quotas: bounds.
    """
    return tuple(
        TenantFull(tenant, count, quotas.sessions_max)
        for tenant, count in sorted(open_sessions.items())
        if count >= quotas.sessions_max
    )


def keep_oldest(entries: Mapping[Session, int], quotas: Quotas) -> dict[Session, int]:
    """Return the sessions that have too many inbox entries, and how many of each, the oldest, stay.

    A tenant that has too many in all keeps as many of each session as fit if all its inboxes are cut to one length;
    where even one of each is too many, it keeps those of the shortest inboxes.

    Args:
        entries: inbox entries of each session of one shard.
        quotas: bounds.
    """
    by_tenant: defaultdict[str, dict[Session, int]] = defaultdict(dict)
    for session, count in entries.items():
        by_tenant[session[0]][session] = count
    kept: dict[Session, int] = {}
    for counts in by_tenant.values():
        room = quotas.tenant_inbox_entries_max
        length = min(quotas.inbox_entries_max, _common_length(list(counts.values()), room))
        for session, count in sorted(counts.items(), key=lambda item: (item[1], item[0])):
            stays = min(count, length) if length else min(count, room, 1)
            room -= stays
            if stays < count:
                kept[session] = stays
    return kept


def _common_length(counts: list[int], room: int) -> int:
    """Return the greatest length to which all may be cut so that they fit together; 0: not even one of each fits."""
    low, high = 0, max(counts)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(count, middle) for count in counts) <= room:
            low = middle
        else:
            high = middle - 1
    return low


class StoredObject(msgspec.Struct, frozen=True):
    """An object in the store, whole or half."""

    tenant: str
    object_id: str
    chunks: int
    shard: int
    """One that holds some of it."""

    @property
    def size_bytes(self) -> int:
        """Its size, at most: the last chunk may be shorter."""
        return self.chunks * OBJECT_CHUNK_BYTES_MAX


def has_too_much(found: Iterable[StoredObject], tenant_bytes_max: int) -> list[StoredObject]:
    """Return the objects of tenants that have more than their share."""
    by_tenant: defaultdict[str, list[StoredObject]] = defaultdict(list)
    for one in found:
        by_tenant[one.tenant].append(one)
    return [
        one
        for objects in by_tenant.values()
        if sum(each.size_bytes for each in objects) > tenant_bytes_max
        for one in objects
    ]


def to_drop(since_ms: Mapping[StoredObject, int], tenant_bytes_max: int) -> list[StoredObject]:
    """Return what goes so that each tenant has its share at most: the oldest first.

    Args:
        since_ms: object -> when it began to be stored.
        tenant_bytes_max: one tenant's share.
    """
    room: defaultdict[str, int] = defaultdict(lambda: tenant_bytes_max)
    dropped = []
    for one in sorted(since_ms, key=lambda each: since_ms[each], reverse=True):
        room[one.tenant] -= one.size_bytes
        if room[one.tenant] < 0:
            dropped.append(one)
    return dropped[::-1]


class Ahead:
    """Counts what each tenant asked for ahead of its publish, in a window that starts anew."""

    def __init__(self, most: int, window_s: float) -> None:
        """Allow `most` of each tenant in `window_s` seconds."""
        self._most = most
        self._window_s = window_s
        self._began = 0.0
        self._counts: defaultdict[str, int] = defaultdict(int)

    def take(self, tenant: str, now: float) -> bool:
        """Count one more; False: it is too many.

        Args:
            tenant: whose.
            now: monotonic clock.
        """
        if now - self._began >= self._window_s:
            self._began = now
            self._counts.clear()
        if self._counts[tenant] >= self._most:
            return False
        self._counts[tenant] += 1
        return True
