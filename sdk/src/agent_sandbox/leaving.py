"""What is still to be done on an error's way out, also where the caller is being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

CANCEL_BOUND_S = 16.0


async def bounded(work: Coroutine[Any, Any, object], within_s: float = CANCEL_BOUND_S) -> None:
    """Do something although we are being cancelled ourselves: shielded, for so long at most, its outcome unread."""
    await asyncio.shield(asyncio.ensure_future(_quietly(work, within_s)))


async def _quietly(work: Coroutine[Any, Any, object], within_s: float) -> None:
    doing = asyncio.ensure_future(work)
    await asyncio.wait({doing}, timeout=within_s)
    doing.cancel()
    await asyncio.gather(doing, return_exceptions=True)
