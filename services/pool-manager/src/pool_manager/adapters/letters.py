"""Dead letters over their stream."""

from __future__ import annotations

from contextlib import suppress

from shared import logs, subjects
from shared.bus import Bus, Stored
from shared.errors import InvalidMessage, NotFound
from shared.letters import DeadLetter, seal, unseal
from shared.views import LetterRow

log = logs.get(__name__)

BURY_S = 5.0
WINDOW = 256
"""Sequences that are looked through at once on the way back; doubled where they hold little of the tenant's."""
WINDOWS_MAX = 24
"""With doubling enough for any stream; a bound all the same."""
BATCH = 32
"""Letters in one answer: each may hold 256 KiB."""
STREAM = subjects.DEAD_LETTER_STREAM


class StreamLetters:
    """Implements `ports.letters.Letters`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def bury(self, letter: DeadLetter, body: bytes) -> int:
        """Keep a letter and return its number; again for the same task, it is kept once."""
        sealed = seal(letter, body)
        ack = await self._bus.publish_acked(
            subjects.dead_letter(letter.tenant, letter.pool),
            sealed.body,
            message_id=sealed.message_id,
            headers=sealed.headers,
            deadline_s=BURY_S,
        )
        return ack.seq

    async def page(self, tenant: str, before: int | None, limit: int) -> list[LetterRow]:
        """Return the tenant's newest letters below a number, the newest first."""
        state = (await self._bus.js_api(f"STREAM.INFO.{STREAM}"))["state"]
        first = int(state["first_seq"])
        top = int(state["last_seq"]) if before is None else min(before - 1, int(state["last_seq"]))
        found: list[LetterRow] = []
        window = WINDOW
        for _ in range(WINDOWS_MAX):
            if top < first or len(found) >= limit:
                break
            bottom = max(first, top - window + 1)
            rows = await self._between(tenant, bottom, top)
            found += reversed(rows)
            top = bottom - 1
            if len(rows) < limit:
                window *= 2
        return found[:limit]

    async def find(self, tenant: str, number: int) -> tuple[LetterRow, bytes] | None:
        """Return one of the tenant's letters with its body, as the leader has it."""
        stored = await self._bus.read_next(
            STREAM, subjects.dead_letter(tenant, "*"), after_seq=number - 1
        )
        if stored is None or stored.seq != number:
            return None
        row = _row(stored)
        return None if row is None else (row, stored.data)

    async def remove(self, number: int) -> bool:
        """Remove a letter; return whether it was there."""
        with suppress(NotFound):
            await self._bus.js_api(f"STREAM.MSG.DELETE.{STREAM}", {"seq": number, "no_erase": True})
            return True
        return False

    async def _between(self, tenant: str, bottom: int, top: int) -> list[LetterRow]:
        rows: list[LetterRow] = []
        async for stored in self._bus.scan(
            STREAM, subjects.dead_letter(tenant, "*"), batch=BATCH, after_seq=bottom - 1
        ):
            if stored.seq > top:
                break
            row = _row(stored)
            if row is not None:
                rows.append(row)
        return rows


def _row(stored: Stored) -> LetterRow | None:
    try:
        return LetterRow(
            number=stored.seq, buried_ms=stored.time_ms, letter=unseal(dict(stored.headers))
        )
    except InvalidMessage as exc:
        log.warning("dead_letter.unreadable", seq=stored.seq, error=str(exc))
        return None
