"""Leases and locks, as one finds them in many a repository, done with care.

`Lease` is what Kubernetes' leader election does: an entry that only one can create, renewed at a third of its time, believed
while the last renewal is young enough by the holder's own monotonic clock. `Redlock` takes the same entry on a majority of
independent servers, counts the time that this took, and gives back what it has where that is no majority.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from shared.bus import Bus
from shared.errors import ServiceError

SECOND_NS = 1_000_000_000
STREAM = "LOCKS"
ANSWER_S = 0.3
DRIFT = 0.01
"""Share of its time by which clocks may drift apart, as Redlock's authors have it."""


async def make_store(bus: Bus, ttl_s: float) -> None:
    """Make the place of leases: the server itself forgets what is not renewed."""
    ttl_ns = int(ttl_s * SECOND_NS)
    config = {
        "name": STREAM,
        "subjects": ["lock.>"],
        "storage": "memory",
        "max_msgs_per_subject": 1,
        "max_age": ttl_ns,
        "duplicate_window": ttl_ns,
    }
    await bus.js_api(f"STREAM.CREATE.{STREAM}", config)


class Lease:
    """An entry on one server that one holder has at a time."""

    def __init__(self, bus: Bus, name: str, ttl_s: float) -> None:
        """Name it; nothing is taken yet."""
        self._bus, self._subject, self._ttl_s = bus, f"lock.{name}", ttl_s
        self._seq = 0
        self._until = 0.0

    @property
    def is_held(self) -> bool:
        """Whether it is ours, by our own clock."""
        return time.monotonic() < self._until

    async def take(self, holder: str) -> bool:
        """Create the entry; return whether it is ours now."""
        return await self._write(holder, 0)

    async def renew(self, holder: str) -> bool:
        """Renew the entry, if it is still our own; return whether it is."""
        return self.is_held and await self._write(holder, self._seq)

    async def _write(self, holder: str, expected_seq: int) -> bool:
        began = time.monotonic()
        try:
            self._seq = await self._bus.compare_and_set(
                self._subject, holder.encode(), expected_seq=expected_seq, timeout_s=ANSWER_S
            )
        except ServiceError:
            return False
        self._until = began + self._ttl_s * (1 - DRIFT)
        return True

    async def give_back(self) -> None:
        """Remove the entry, if it is still our own."""
        order = {"filter": self._subject, "seq": self._seq + 1}
        self._until = 0.0
        with contextlib.suppress(ServiceError):
            await self._bus.js_api(f"STREAM.PURGE.{STREAM}", order, timeout_s=ANSWER_S)


class Redlock:
    """A lock on a majority of servers."""

    def __init__(self, buses: Sequence[Bus], name: str, ttl_s: float) -> None:
        """Name it; nothing is taken yet."""
        self._leases = [Lease(bus, name, ttl_s) for bus in buses]
        self._ttl_s = ttl_s
        self._value = secrets.token_hex(8)

    @property
    def is_held(self) -> bool:
        """Whether a majority is ours, by our own clock."""
        return self._is_majority([lease.is_held for lease in self._leases])

    async def take(self) -> bool:
        """Take it; return whether it is ours. What is no majority is given back."""
        got = await asyncio.gather(*(lease.take(self._value) for lease in self._leases))
        if self._is_majority(got) and self.is_held:
            return True
        await self.give_back()
        return False

    async def give_back(self) -> None:
        """Give back what we have of it."""
        await asyncio.gather(*(lease.give_back() for lease in self._leases if lease.is_held))

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[None]:
        """Renew it in the background while inside; give it back at the end."""
        renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            renewing.cancel()
            await self.give_back()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._ttl_s / 3)
            await asyncio.gather(*(lease.renew(self._value) for lease in self._leases))

    def _is_majority(self, got: Sequence[bool]) -> bool:
        return sum(got) > len(self._leases) // 2
