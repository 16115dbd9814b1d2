"""Which server to try next."""

from __future__ import annotations

import random
from collections.abc import Sequence

from nats.aio.client import Server

RECONNECT_WAIT_S = 0.1
RECONNECT_WAIT_MAX_S = 1.0


def choose(servers: Sequence[Server], left: str, tries: int) -> tuple[Server, float]:
    """Return where to reconnect, and after how many seconds: another server first, soon then later, with jitter.

    Args:
        servers: all that are known.
        left: address of the one that we were connected to.
        tries: tries since the connection was lost, this one included.
    """
    wait_s = min(RECONNECT_WAIT_S * (tries - 1), RECONNECT_WAIT_MAX_S)
    chosen = min(servers, key=lambda s: (s.reconnects, s.uri.netloc == left, random.random()))
    return chosen, wait_s + random.uniform(0, RECONNECT_WAIT_S)
