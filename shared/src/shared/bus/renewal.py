"""Going on under newer credentials, each shown before the former one ends."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from shared import logs
from shared.bus.bus import Bus
from shared.errors import ServiceError, Unavailable
from shared.identity import lifetime, read_credential
from shared.messages import Credential

log = logs.get(__name__)

RENEW_FROM, RENEW_TO = 0.7, 0.8
"""Somewhere between these parts of its life a credential is renewed: workers that started together spread out."""
LATE = 0.95
"""Not renewed until then, its holder is told: what it has not begun it had better leave to others."""
RETRY_MIN_S = 0.25
RETRY_MAX_S = 30.0

Fetch = Callable[[], Awaitable[Credential]]
Show = Callable[[Credential], Awaitable[None]]


async def keep_renewed(
    credential: Credential, fetch: Fetch, show: Show, *, on_late: Callable[[], None] | None = None
) -> None:
    """Renew for as long as credentials end, until cancelled.

    Args:
        credential: the present one.
        fetch: returns a newer one; a ServiceError: none now, asked again with back-off.
        show: goes on under it.
        on_late: called when one will end soon and no newer one could be had; trying goes on.
    """
    while (life := lifetime(credential)) is not None:
        began, ends = life
        left_s = ends - time.time()
        if not 0 < left_s <= ends - began:
            # The servers' clock judges the end, and ours is wrong: a new one has its whole life ahead.
            left_s = max(ends - began, RETRY_MIN_S)
        until = asyncio.get_running_loop().time() + left_s
        await asyncio.sleep(left_s * random.uniform(RENEW_FROM, RENEW_TO))
        credential = await _fetch(fetch, until - left_s * (1 - LATE), on_late)
        try:
            await show(credential)
        except ServiceError as exc:
            log.warning("credential.not_shown_yet", error=str(exc))
        else:
            log.info("credential.renewed")


async def _fetch(fetch: Fetch, late_at: float, on_late: Callable[[], None] | None) -> Credential:
    clock = asyncio.get_running_loop().time
    tries = 0
    while True:
        try:
            return await fetch()
        except ServiceError as exc:
            log.warning("credential.not_renewed_yet", code=exc.code, error=str(exc))
        if on_late is not None and clock() >= late_at:
            on_late()
            on_late = None
        pause_s = min(RETRY_MIN_S * 2**tries, RETRY_MAX_S) * random.uniform(0.75, 1.25)
        tries = min(tries + 1, 16)
        if on_late is not None:
            pause_s = min(pause_s, max(late_at - clock(), 0.0))
        await asyncio.sleep(pause_s)


async def follow_file(bus: Bus, path: Path) -> None:
    """Renew from a file that whoever started this service writes anew in time; until cancelled.

    Args:
        bus: connected with a function that reads this file: what is renewed too late is taken up by a reconnect.
        path: the credential file.

    Raises:
        InvalidMessage, NotFound: the file can not be used now.
    """
    present = read_credential(path)

    async def read_newer() -> Credential:
        nonlocal present
        newest = read_credential(path)
        if newest == present:
            raise Unavailable(f"{path} has not been renewed yet")
        present = newest
        return newest

    await keep_renewed(present, read_newer, lambda _: bus.use_credential())
