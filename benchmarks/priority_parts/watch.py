"""Who claimed what, and when it could have been something more urgent."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from harness.observe import listening

from shared import headers, subjects
from shared.bus import Bus, Handler, Message
from shared.messages import decode
from shared.record import Record

UNDER_WAY_S = 0.05
"""A worker heard for the first time so long after a token's bell may have asked before the consumer had the token: the
bell overtakes it, and a worker's first question leaves before its first heartbeat."""


@dataclass
class Claim:
    """A worker became the owner of a session."""

    at_s: float
    session: str
    lane: str
    owner: str


@dataclass
class Watch:
    """What was heard of a pool, monotonic clock of this process."""

    born: dict[str, float] = field(default_factory=dict)
    """Worker -> its first heartbeat."""
    tokens: dict[str, float] = field(default_factory=dict)
    """Session that lost its worker -> its token was stored in `recovery`."""
    claims: list[Claim] = field(default_factory=list)
    _owners: dict[str, tuple[str, int]] = field(default_factory=dict)

    def _on_beat(self, message: Message) -> None:
        self.born.setdefault(message.subject.rpartition(".")[2], time.monotonic())

    def _on_bell(self, message: Message) -> None:
        _, klass, _ = subjects.parse_bell(message.subject)
        session = message.headers.get(headers.TOKEN)
        if klass == "recovery" and session:
            self.tokens.setdefault(session, time.monotonic())

    def _on_record(self, message: Message) -> None:
        record = decode(message.data, Record)
        hold = (record.owner or "", record.epoch)
        if record.state == "running" and self._owners.get(record.session) != hold:
            self._owners[record.session] = hold
            self.claims.append(
                Claim(time.monotonic(), record.session, record.lane, record.owner or "")
            )


@asynccontextmanager
async def watch(bus: Bus, pool: str) -> AsyncIterator[Watch]:
    """Listen to a pool's heartbeats, bells and records."""
    seen = Watch()
    handlers: dict[str, Handler] = {
        subjects.heartbeat(pool): seen._on_beat,
        subjects.bells(pool): seen._on_bell,
        subjects.record_live(pool): seen._on_record,
    }
    async with listening(bus, handlers):
        yield seen


def recovered(seen: Watch) -> dict[str, float]:
    """Return the sessions that lost their worker and got another one: seconds from token to claim."""
    claimed = {claim.session: claim.at_s for claim in seen.claims if claim.lane == "recovery"}
    return {
        session: claimed[session] - at_s
        for session, at_s in seen.tokens.items()
        if session in claimed
    }


def passed_over(seen: Watch) -> set[str]:
    """Return the sessions whose token lay in `recovery` while a worker that came after it took something else."""
    claimed = {claim.session: claim.at_s for claim in seen.claims if claim.lane == "recovery"}
    return {
        session
        for session, at_s in seen.tokens.items()
        for claim in seen.claims
        if claim.lane != "recovery"
        and at_s < claim.at_s < claimed.get(session, float("inf"))
        and seen.born.get(claim.owner, 0.0) > at_s + UNDER_WAY_S
    }
