"""When a session that waits for a worker gets another token.

A token is a hint in a queue lane; it may be lost. A backlog is not a lost token: as long as a message older than the
token waits in the lane, the token is only waiting its turn.
"""

from __future__ import annotations

import msgspec

from pool_manager.core.table import Row

UNCLAIMED_S = 2.0
BACK_OFF_MAX_S = 30.0
SLACK_MS = 500
"""Between a record and its token, and between the clocks of servers and pool-managers."""
WINDOW_S = 2.0


class Sent(msgspec.Struct):
    """What this pool-manager knows of a session's tokens."""

    seq: int
    """Sequence of the record that they are for."""
    last_ms: int
    """Wall clock of the newest one, at the latest."""
    next_at: float
    """Monotonic clock of the next look."""
    again: int = 0


class Tokens:
    """Remembers tokens by session, and says who needs a look."""

    def __init__(self) -> None:
        """Start without memory."""
        self._sent: dict[str, Sent] = {}

    def due(self, rows: dict[str, Row], now: float) -> list[Row]:
        """Return queued sessions that nobody claimed for so long that their token may be lost."""
        for key in self._sent.keys() - rows.keys():
            del self._sent[key]
        found = []
        for key, row in rows.items():
            sent = self._sent.get(key)
            if sent is None or sent.seq != row.seq:
                sent = self._sent[key] = Sent(row.seq, row.stored_ms, row.since + UNCLAIMED_S)
            if now >= sent.next_at:
                found.append(row)
        return found

    def is_lost(self, row: Row, oldest_ms: int | None) -> bool:
        """Return whether the session's last token is surely not in its lane any more.

        Args:
            row: the session, from `due`.
            oldest_ms: when the lane's oldest message was stored; None: the lane is empty.
        """
        sent = self._sent.get(row.key)
        return oldest_ms is None or sent is None or oldest_ms > sent.last_ms + SLACK_MS

    def looked(self, row: Row, now: float) -> None:
        """The token is in its lane: look again later."""
        if (sent := self._sent.get(row.key)) is not None:
            sent.next_at = now + UNCLAIMED_S

    def sent(self, row: Row, *, now: float, wall_ms: int) -> None:
        """Another token is in the lane; the next one after a longer wait."""
        sent = self._sent.setdefault(row.key, Sent(row.seq, wall_ms, now))
        sent.again += 1
        sent.last_ms = wall_ms
        sent.next_at = now + min(UNCLAIMED_S * 2**sent.again, BACK_OFF_MAX_S)


def message_id(session: str, record_seq: int, window_ms: int | None = None) -> str:
    """Return a token's message id: one for each write of the record, and for the sweeper one each two seconds."""
    if window_ms is None:
        return f"{session}:{record_seq}"
    return f"{session}:{record_seq}:{int(window_ms / 1000 // WINDOW_S)}"
