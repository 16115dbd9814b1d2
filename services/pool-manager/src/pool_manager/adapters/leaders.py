"""Who leads what, asked of the servers."""

from __future__ import annotations

from collections.abc import Sequence

from pool_manager.core.balance import Move, Replica, Seat
from shared.bus import Bus
from shared.bus.leaders import Led, all_led, state_of, step_down
from shared.pools import PoolSpec
from shared.topology import topology


class StreamLeaders:
    """Implements `ports.Leaders` for everything that the topology declares."""

    def __init__(self, bus: Bus, pools: Sequence[PoolSpec]) -> None:
        """Use the service's connection."""
        self._bus = bus
        self._led = all_led(topology(pools, created_ms=0))

    async def look(self) -> list[Seat]:
        """Return all seats; each is asked about, one after the other: it happens twice a minute."""
        return [await self._seat(led) for led in self._led]

    async def _seat(self, led: Led) -> Seat:
        state = await state_of(self._bus, led)
        replicas = {
            replica["name"]: Replica(
                current=bool(replica.get("current")),
                lag=int(replica.get("lag", 0)),
                offline=bool(replica.get("offline")),
            )
            for replica in state.get("replicas") or []
        }
        return Seat(led.path, led.server, state.get("leader") or "", replicas)

    async def move(self, move: Move) -> None:
        """Have a seat led by another of its servers."""
        await step_down(self._bus, move.path, move.to)
