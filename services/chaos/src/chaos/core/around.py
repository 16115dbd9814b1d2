"""What was felt around a fault by those whom it did not hit, and what became of the pool's stock."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chaos.core.history import History
from chaos.core.rows import Nemesis
from shared.percentiles import percentile

FELT_S = 120.0
"""A fault is looked at for so long at most, or until the next one."""
BACK_SHARE = 0.95
"""Of its stock: a pool that is refilled at each claim is never quite full while tasks come."""


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """One fault's surroundings; None: nothing to measure it by. Turns are those of chats and batch work, not the long ones."""

    turn_p99_ratio: float | None = None
    """99th percentile of how long turns took that were begun while it lasted, over that of turns before the first fault."""
    delay_max_s: float | None = None
    """By how much the longest turn under way while it lasted took longer than the longest one before the first fault; 0: not."""
    settled_s: float | None = None
    """From its healing until the last of the turns ended that were under way then."""
    restock_s: float | None = None
    """From the fault until as many workers waited or started as the pool's stock says, as the pool-managers tell."""
    over_share: float | None = None
    """How many more than its stock waited or started at most, as a share of it."""


def around(row: Nemesis, history: History) -> Around:
    """Return what was felt around one fault."""
    healed_s = min(
        (one.time for one in history.nemesis if _ends(one, row)),
        default=history.end_s,
    )
    next_s = min(
        (one.time for one in history.nemesis if one.type == "inject" and one.time > row.time),
        default=history.end_s,
    )
    until_s = min(next_s, row.time + FELT_S)
    turns = [c for c in history.calls if c.invoke.f == "append" and c.invoke.kind != "long"]
    first_s = min(one.time for one in history.nemesis if one.type == "inject")
    spans = [(call.invoke.time, min(call.ended_at, history.end_s)) for call in turns]
    before = [end_s - at_s for at_s, end_s in spans if end_s < first_s]
    begun = [end_s - at_s for at_s, end_s in spans if row.time <= at_s < healed_s]
    during = [end_s - at_s for at_s, end_s in spans if at_s < healed_s and end_s > row.time]
    open_ = [end_s - healed_s for at_s, end_s in spans if at_s < healed_s < end_s]
    positions, stock = _positions(history, row.time, until_s), _stock(history)
    return Around(
        turn_p99_ratio=percentile(begun, 99) / percentile(before, 99) if begun and before else None,
        delay_max_s=max(0.0, max(during) - max(before)) if during and before else None,
        settled_s=max(open_, default=0.0) if healed_s < history.end_s else None,
        restock_s=_restock_s(positions, row.time, stock),
        over_share=_over(positions, stock),
    )


def _ends(one: Nemesis, row: Nemesis) -> bool:
    return one.type == "heal" and one.fault == row.fault and one.time >= row.time


def _stock(history: History) -> int:
    return int((history.header.settings if history.header else {}).get("stock", 0))


def _positions(history: History, begin_s: float, end_s: float) -> list[tuple[float, int]]:
    """Return how many workers waited or started, moment by moment."""
    return [
        (gauge.time, sum(warm + starting for warm, starting, _ in gauge.pools.values()))
        for gauge in history.gauges
        if gauge.pools and begin_s <= gauge.time < end_s
    ]


def _restock_s(positions: Sequence[tuple[float, int]], at_s: float, stock: int) -> float | None:
    """Return when a pool that had fallen below its stock was back; 0: it had not; None: it was not back, or nobody looked."""
    if not positions or not stock:
        return None
    low = [moment for moment, position in positions if position < BACK_SHARE * stock]
    if not low:
        return 0.0
    back = [m for m, position in positions if m > low[0] and position >= BACK_SHARE * stock]
    return back[0] - at_s if back else None


def _over(positions: Sequence[tuple[float, int]], stock: int) -> float | None:
    if not positions or not stock:
        return None
    return max(0.0, max(position for _, position in positions) / stock - 1)
