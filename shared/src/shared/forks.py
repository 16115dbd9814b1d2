"""How a session begins with a snapshot of another one. Pure, like `shared.transitions`.

    record `forking` -> pin in the parent's workspace head -> the snapshot is found to be retained still -> idle

So no collection can remove what the fork needs. An old `forking` is failed by `transitions.end` first, then its pin goes.
"""

from __future__ import annotations

from msgspec.structs import replace

from shared.record import Origin, Record, check_state
from shared.transitions import unborn
from shared.workspace import Base


def fork(origin: Origin, *, base: Base) -> Record:
    """Return the record of a session that begins with a snapshot of another one (expected sequence 0).

    The snapshot is pinned after this write, and found to be retained after that: `forked`, or its end.
    """
    return replace(unborn(origin, "forking"), keep=True, first_done=True, base=base)


def forked(record: Record) -> Record:
    """Return the record of a fork whose snapshot is pinned: idle.

    Raises:
        Conflict: it took too long and was ended.
    """
    check_state(record, "forked", "forking")
    assert record.base is not None, "a fork has a base"
    return replace(record, state="idle", boundary=record.base.snapshot)
