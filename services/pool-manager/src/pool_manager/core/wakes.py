"""Wake-ups: which of them a session without an owner still needs, and when to act on it.

What is heard of a session that has an owner is its owner's affair: the owner reads its inbox until it lets go. But the
word of a release and the word of a new entry come by different ways, and the entry may be heard first, when the owner
does not look any more. So a wake-up is kept until the record says that its entry is done.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from pool_manager.core.table import Row, key_of
from shared.classes import is_more_urgent, most_urgent
from shared.record import ENDED, Record
from shared.traces.context import Trace

LET_GO_S = 0.3
"""After its release an owner looks into the inbox once more and may take the session back, workspace and all: a
session that was let go a moment ago is left to it for so long."""
WAKES_MAX = 50_000


class Wake(msgspec.Struct, frozen=True):
    """Something in a session's inbox that asks for a worker."""

    tenant: str
    session: str
    seq: int | None
    """Stream sequence of the newest entry; None: not known."""
    asks: frozenset[str | None]
    """Classes that entries ask for; None: the session's own."""
    since: float = 0.0
    """Monotonic clock from which on it is to be acted on."""
    trace: Trace | None = None
    """Of the first entry of which it is known."""

    @property
    def key(self) -> str:
        """Key of the session."""
        return key_of(self.tenant, self.session)


def lane_of(wake: Wake, record: Record) -> str:
    """Return the class in which a session is to wait: the most urgent one that its inbox asks for."""
    first, *others = (klass or record.client_lane for klass in wake.asks)
    return most_urgent(first, *others)


def is_needed(wake: Wake, record: Record) -> bool:
    """Return whether the session sleeps although it has work, or waits less urgently than that work asks."""
    if record.state == "idle":
        return not is_done(wake, record)
    return record.state == "queued" and is_more_urgent(lane_of(wake, record), record.lane)


def is_done(wake: Wake, record: Record) -> bool:
    """Return whether all that woke has its result."""
    return record.state in ENDED or (wake.seq is not None and wake.seq <= record.position)


class Wakes:
    """The wake-ups that are not done with, each session's as one."""

    def __init__(self) -> None:
        """Start with none."""
        self.due: dict[str, Wake] = {}
        """To be acted on, once it is this pool-manager's turn."""
        self._kept: OrderedDict[str, Wake] = OrderedDict()

    def heard(self, wake: Wake, row: Row | None) -> bool:
        """Take in a wake-up; return whether something is due by it.

        Args:
            wake: heard just now.
            row: what is known of its session; None: nothing.
        """
        key = wake.key
        if (kept := self._kept.pop(key, None)) is not None:
            wake = _joined(kept, wake)
        if (due := self.due.get(key)) is not None:
            wake = msgspec.structs.replace(_joined(due, wake), since=due.since)
        if row is not None and not is_needed(wake, row.record):
            self.due.pop(key, None)
            self.keep(wake, row.record)
            return False
        if key not in self.due and len(self.due) >= WAKES_MAX:
            return False  # the survey of the inboxes finds it
        if row is not None and row.record.state == "idle":
            wake = msgspec.structs.replace(wake, since=max(wake.since, row.since + LET_GO_S))
        self.due[key] = wake
        return True

    def noticed(self, row: Row, now: float) -> bool:
        """Take in that a session changed; return whether something is due by that."""
        wake = self._kept.pop(row.key, None)
        if wake is None:
            return False
        return self.heard(msgspec.structs.replace(wake, since=now), row)

    def ended(self, wake: Wake) -> None:
        """A session has ended: its inbox is to be refused, by whoever's turn it is."""
        self._kept.pop(wake.key, None)
        if len(self.due) < WAKES_MAX:  # else the survey of the inboxes finds it
            self.due[wake.key] = wake

    def failed(self, wake: Wake, again_at: float) -> None:
        """A wake-up could not be acted on: it is due again then (monotonic clock)."""
        if (due := self.due.get(wake.key)) is not None:
            wake = _joined(due, wake)
        elif len(self.due) >= WAKES_MAX:
            return  # the survey of the inboxes finds it
        self.due[wake.key] = msgspec.structs.replace(wake, since=again_at)

    def taken(self, key: str) -> None:
        """A wake-up is being acted on."""
        self.due.pop(key, None)

    def keep(self, wake: Wake, record: Record) -> None:
        """A wake-up is not needed now: keep it until it is done."""
        if is_done(wake, record):
            return
        kept = self._kept.pop(wake.key, None)
        self._kept[wake.key] = wake if kept is None else _joined(kept, wake)
        if len(self._kept) > WAKES_MAX:
            self._kept.popitem(last=False)


def _joined(first: Wake, second: Wake) -> Wake:
    seq = None if first.seq is None or second.seq is None else max(first.seq, second.seq)
    return msgspec.structs.replace(
        second, seq=seq, asks=first.asks | second.asks, trace=first.trace or second.trace
    )
