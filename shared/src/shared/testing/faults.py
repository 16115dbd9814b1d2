"""What is done to a server, and taken back: the four ways in which a server can be lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from shared.cluster import ServerProcess


@runtime_checkable
class Faulty(Protocol):
    """A server whose network can be cut."""

    def cut(self) -> None:
        """Cut it off from everybody."""

    def heal(self) -> None:
        """Let all through again."""


FAULTS: dict[str, Callable[[ServerProcess], None]] = {
    "killed": lambda server: server.kill(),
    "hung": lambda server: server.pause(),
    "stopped": lambda server: server.stop(),
    "cut": lambda server: _network(server).cut(),
}
"""SIGKILL; SIGSTOP, so that its connections stay open; SIGTERM, so that it hands over; no packet passes any more."""


def _network(server: ServerProcess) -> Faulty:
    assert isinstance(server, Faulty), (
        "the test's servers do not go through a relay: see `cuttable`"
    )
    return server


async def strike(fault: str, server: ServerProcess) -> None:
    """Do it to a server, without standing still meanwhile."""
    await asyncio.to_thread(FAULTS[fault], server)


def mend(server: ServerProcess) -> None:
    """Take back whatever was done."""
    server.resume()
    if isinstance(server, Faulty):
        server.heal()
    if not server.running:
        server.start(die_with_parent=True)
