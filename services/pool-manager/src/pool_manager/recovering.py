"""Joins what gives up dead owners, and has their workspaces saved, to the outside."""

from __future__ import annotations

from typing import Protocol, TypeVar

from pool_manager.adapters.checkpointers import BusCheckpointers
from pool_manager.adapters.letters import StreamLetters
from pool_manager.adapters.queue import StreamQueue
from pool_manager.adapters.truth import StreamTruth
from pool_manager.core.world import World
from pool_manager.loops.note import Notes
from pool_manager.loops.recover import Recoverer
from pool_manager.loops.rescue import Rescuer
from pool_manager.ports.pods import Pods
from shared.bus import Bus

T = TypeVar("T")


class At(Protocol):
    """Puts failpoints before a port."""

    def __call__(self, place: str, port: T, /) -> T:
        """Return the port as a loop is to see it."""
        ...


def make_recoverer(
    world: World,
    bus: Bus,
    stores: tuple[StreamTruth, StreamQueue, StreamLetters, Pods],
    at: At,
    notes: Notes,
) -> Recoverer:
    """Return what gives up dead owners, with failpoints on its way out."""
    truth, queue, letters, pods = stores
    rescuer = Rescuer(
        world,
        at("rescue", truth),
        at("rescue", BusCheckpointers(bus)),
        at("rescue", pods),
    )
    ports = (at("recover", truth), at("recover", queue), at("recover", letters))
    return Recoverer(world, ports, rescuer, notes)
