"""Removes what ended pods left behind, one at a time, aside from the pods that run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from local_node.loops.hold_pods import Pods

_PERIOD_S = 1.0


async def clear_away(pods: Pods, empty_trash: Callable[[], Awaitable[None]]) -> None:
    """Give up the files of pods that ended long ago, and remove what was given up, for ever."""
    while True:
        pods.expire()
        await empty_trash()
        await asyncio.sleep(_PERIOD_S)
