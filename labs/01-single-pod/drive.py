"""What both sides go through, in the same order: small tasks alone, beside a busy neighbour, a curious one, a hungry one."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple, Protocol

import payloads

from labs.frame import CannotRun, Figures, Say
from shared.percentiles import percentile

PODS_SECRET = "the key that pays for everybody's model"
ALONE = 40
PAUSE_S = 0.05
TROUBLE, *OTHERS = range(payloads.SESSIONS)


class Place(Protocol):
    """Where sessions run."""

    secret: str
    """Path of a file that belongs to whoever runs the service."""

    async def run(self, session: int, code: str) -> str | None:
        """Run a session's task; return what it printed, None: it died."""

    async def restart(self) -> None:
        """Do what has to be done after a death."""


class Small(NamedTuple):
    """A small task: when it was sent, and how long it took."""

    at_s: float
    took_ms: float


async def drive(place: Place, say: Say) -> Figures:
    """Go through all of it; return the figures."""
    for session in range(payloads.SESSIONS):
        await place.run(session, payloads.KEEP_SECRET.format(number=session))
        await place.run(session, payloads.SMALL)
    alone = [await _small(place, OTHERS[n % len(OTHERS)]) for n in range(ALONE)]
    say(f"{ALONE} small tasks alone: median {percentile([s.took_ms for s in alone], 50):.2f} ms")
    beside = await _beside(place)
    say(f"{len(beside)} beside a busy one: the slowest {max(s.took_ms for s in beside):.0f} ms")
    told = await place.run(TROUBLE, payloads.hostile(place.secret)) or ""
    count, _, what = told.partition(" ")
    if not count.isdigit():
        raise CannotRun(f"the curious task told nothing: {told!r}")
    say(f"a curious one read {count} secrets: {what or 'none'}")
    before = [int(await place.run(one, payloads.SMALL) or 0) for one in OTHERS]
    if await place.run(TROUBLE, payloads.HUNGRY) is None:
        await place.restart()
    after = [int(await place.run(one, payloads.SMALL) or 0) for one in OTHERS]
    lost = sum(new != old + 1 for old, new in zip(before, after, strict=True))
    say(f"after a hungry one {lost} of the {len(OTHERS)} others have lost their variables")
    return {
        "slowest_beside_busy_ms": max(one.took_ms for one in beside),
        "secrets_read": int(count),
        "others_lost_to_one_oom": lost,
        "sessions": payloads.SESSIONS,
        "alone_p50_ms": percentile([one.took_ms for one in alone], 50),
        "beside_busy_p50_ms": percentile([one.took_ms for one in beside], 50),
        "small_tasks_beside_busy": len(beside),
        "beside": [[one.at_s, one.took_ms] for one in beside],
    }


async def _beside(place: Place) -> list[Small]:
    """Send small tasks for as long as a busy one runs."""
    busy = asyncio.create_task(place.run(TROUBLE, payloads.BUSY))
    began = time.monotonic()

    async def user(session: int) -> list[Small]:
        found = []
        while not busy.done() or not found:
            at_s = time.monotonic() - began
            found.append((await _small(place, session))._replace(at_s=at_s))
            await asyncio.sleep(PAUSE_S)
        return found

    lists = await asyncio.gather(*(user(session) for session in OTHERS))
    if await busy is None:
        raise CannotRun("the busy task died")
    return sorted(one for found in lists for one in found)


async def _small(place: Place, session: int) -> Small:
    began = time.monotonic()
    if await place.run(session, payloads.SMALL) is None:
        raise CannotRun("a small task died")
    return Small(0.0, (time.monotonic() - began) * 1000)
