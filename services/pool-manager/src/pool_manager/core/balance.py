"""Which leaders to move back: leadership does not return by itself after a server was away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

CATCHING_UP = 100
"""A replica that lags by more is not behind for a moment: it fetches what it missed."""


class Replica(msgspec.Struct, frozen=True):
    """A server that follows."""

    current: bool
    """Heard of lately, and up to date."""
    lag: int = 0
    offline: bool = False


class Seat(msgspec.Struct, frozen=True):
    """A stream or consumer, and who leads it."""

    path: str
    """`<stream>`, or `<stream>.<consumer>`."""
    server: int
    """Index of the server that should lead it, counted in the order of the servers' names."""
    leader: str
    """Empty: none."""
    replicas: Mapping[str, Replica]


class Move(msgspec.Struct, frozen=True):
    """Have this server lead."""

    path: str
    to: str


def plan(seats: Sequence[Seat], at_most: int) -> list[Move]:
    """Return the moves to make now, at most so many.

    None at all while a leader is missing, a server is down, or one still fetches what it missed: each move is a short
    stop, and a cluster that is not whole has better to do. A seat of which a replica lags just now is left for later.
    """
    if any(_is_troubled(seat) for seat in seats):
        return []
    moves = []
    for seat in seats:
        names = sorted([seat.leader, *seat.replicas])
        if seat.server >= len(names) or names[seat.server] == seat.leader:
            continue
        if all(replica.current and not replica.lag for replica in seat.replicas.values()):
            moves.append(Move(seat.path, names[seat.server]))
    return moves[:at_most]


def _is_troubled(seat: Seat) -> bool:
    return not seat.leader or any(
        replica.offline or replica.lag > CATCHING_UP for replica in seat.replicas.values()
    )
