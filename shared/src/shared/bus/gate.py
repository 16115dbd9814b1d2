"""While a stream does not answer, one of those who wait for it asks; the others wait for its answer.

Without this, 300 publishers that each try again every 0.15 s make some 13,000 requests in one election.
"""

from __future__ import annotations

import asyncio

from shared.errors import Unavailable
from shared.ids import home


class Gate:
    """Before a stream that does not answer. One has the turn and keeps asking, until it is answered or gives up."""

    def __init__(self) -> None:
        """Begin shut: a gate is made when there was no answer."""
        self.is_shut = True
        self._turn = asyncio.Lock()

    async def wait_turn(self, timeout_s: float) -> bool:
        """Wait for the turn, or until the gate is open; return whether the caller has the turn and must `leave`.

        Raises:
            Unavailable: others asked in vain for `timeout_s`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._turn.acquire()
        except TimeoutError as exc:
            raise Unavailable(
                f"no answer for {timeout_s:.1f} s to another publish into the same stream"
            ) from exc
        if not self.is_shut:
            self._turn.release()
        return self.is_shut

    def leave(self) -> None:
        """Let the next one ask."""
        self._turn.release()


class Gates:
    """The gates of one connection; there are none while all streams answer."""

    def __init__(self) -> None:
        """Begin with none."""
        self._shut: dict[str, Gate] = {}

    def find(self, subject: str) -> Gate | None:
        """Return the gate that a publish must pass; None: there is none."""
        return self._shut.get(_place(subject)) if self._shut else None

    def shut(self, subject: str) -> None:
        """A publish had no answer, or found nobody."""
        place = _place(subject)
        if place:
            self._shut.setdefault(place, Gate())

    def open(self, subject: str) -> None:
        """A publish was answered."""
        gate = self._shut.pop(_place(subject), None) if self._shut else None
        if gate is not None:
            gate.is_shut = False


def _place(subject: str) -> str:
    """Return what all publishes that reach the same stream have in common; empty: the next try may reach another.

    Lanes of a queue stream count each for itself: one of a pool that is gone finds nobody, and the others do.
    """
    match subject.split("."):
        case ["session", _, session, _]:
            return f"in.{home(session)}"
        case ["in", shard, *_]:
            return f"in.{shard}"
        case ["q", shard, _, pool, klass]:
            return f"q.{shard}.{pool}.{klass}"
    return ""
