"""Servers that run and do no good: after a full disk a NATS server switches its streams off until it is restarted, and
one that hangs keeps its connections open. One that goes on after a long hang makes every shard elect anew: it is
replaced before that, as a liveness probe does it on Kubernetes.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from agent_sandbox.embedded.folder import FREE_BYTES_MIN
from shared import logs
from shared.cluster import monitor

log = logs.get(__name__)

EVERY_S = 2.5
SICK_CHECKS = 4
"""So often in a row must a server say that it stores nothing."""
HUNG_CHECKS = 3
"""So often in a row must it take a connection and say nothing, for two seconds each time."""

HEALTH = "/healthz?js-enabled-only=true"


class Patient(NamedTuple):
    """A server that is looked at."""

    port: int
    """Its monitoring."""
    store: Path
    """Its streams; they may lie on a disk of their own."""


class Hand(NamedTuple):
    """What can be done about a server, by its name."""

    restart: Callable[[str], None]
    kill: Callable[[str], None]


class Doctor:
    """Looks at the servers in turn; has one restarted that stores nothing although its disk has room, or hangs."""

    def __init__(
        self, patients: Mapping[str, Patient], hand: Hand, say: Callable[[str], None]
    ) -> None:
        """Look at nothing yet.

        Args:
            patients: the servers by name.
            hand: called with the name of a server.
            say: told what is wrong, in words; empty: nothing any more.
        """
        self._patients = patients
        self._hand = hand
        self._say = say
        self._said = ""
        self._sick: Counter[str] = Counter()
        self._hung: Counter[str] = Counter()

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Look at each server once; at most one is restarted, the others may still have a majority."""
        full: dict[str, int] = {}
        for name, patient in self._patients.items():
            free = await asyncio.to_thread(_free_bytes, patient.store)
            if free < FREE_BYTES_MIN:
                full[name] = free
            if await self._treat(name, patient, full=name in full):
                break
        words = []
        if full:
            words.append(
                f"disk almost full: {min(full.values()) >> 20} MiB free, {FREE_BYTES_MIN >> 20} MiB needed "
                f"({', '.join(full)})"
            )
        if self._sick:
            words.append(f"not storing anything: {', '.join(sorted(self._sick))}")
        if self._hung:
            words.append(f"not answering: {', '.join(sorted(self._hung))}")
        self._tell("; ".join(words))

    async def _treat(self, name: str, patient: Patient, *, full: bool) -> bool:
        """Look at a server; return whether it is restarted."""
        health = await asyncio.to_thread(monitor.ask, patient.port, HEALTH)
        if health is None:
            del self._sick[name]
            if not await asyncio.to_thread(monitor.accepts, patient.port):
                del self._hung[name]  # it is down: that is its keeper's matter
                return False
            self._hung[name] += 1
            if self._hung[name] < HUNG_CHECKS:
                return False
            log.warning("server.killed", name=name, why="it hangs")
            del self._hung[name]
            self._hand.kill(name)
            return True
        del self._hung[name]
        if health.get("status") == "ok":
            del self._sick[name]
            return False
        self._sick[name] += 1
        if self._sick[name] < SICK_CHECKS or full:
            return False
        log.warning("server.restarted", name=name, why=health.get("error", ""))
        del self._sick[name]
        self._hand.restart(name)
        return True

    def _tell(self, said: str) -> None:
        if said != self._said:
            self._said = said
            self._say(said)


def _free_bytes(store: Path) -> int:
    """Return the room on a folder's disk; where it is missing (an emptied server), on its parent's."""
    return shutil.disk_usage(store if store.exists() else store.parent).free
