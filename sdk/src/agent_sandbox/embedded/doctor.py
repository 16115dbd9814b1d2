"""Servers that run but store nothing: after a full disk a NATS server switches its streams off until it is restarted."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_sandbox.embedded.folder import FREE_BYTES_MIN
from shared import logs
from shared.cluster import monitor

log = logs.get(__name__)

EVERY_S = 5.0
CHECKS = 2
"""So often in a row must a server say that it stores nothing."""

HEALTH = "/healthz?js-enabled-only=true"


class Doctor:
    """Looks at the servers in turn, and has one restarted that stores nothing although the disk has room."""

    def __init__(
        self,
        path: Path,
        ports: Mapping[str, int],
        restart: Callable[[str], None],
        say: Callable[[str], None],
    ) -> None:
        """Look at nothing yet.

        Args:
            path: a folder on the servers' disk.
            ports: name of each server -> its monitoring port.
            restart: called with the name of a server.
            say: told what is wrong, in words; empty: nothing any more.
        """
        self._path = path
        self._ports = ports
        self._restart = restart
        self._say = say
        self._said = ""
        self._sick: Counter[str] = Counter()

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Look at each server once."""
        free = (await asyncio.to_thread(shutil.disk_usage, self._path)).free
        full = free < FREE_BYTES_MIN
        for name, port in self._ports.items():
            health = await asyncio.to_thread(monitor.ask, port, HEALTH)
            if health is None or health.get("status") == "ok":  # down is the supervisor's matter
                del self._sick[name]
                continue
            self._sick[name] += 1
            if self._sick[name] >= CHECKS and not full:
                log.warning("server.restarted", name=name, why=health.get("error", ""))
                del self._sick[name]
                self._restart(name)
                break  # one at a time: the others may still have a majority
        words = []
        if full:
            words.append(
                f"disk almost full: {free >> 20} MiB free, {FREE_BYTES_MIN >> 20} MiB needed"
            )
        if self._sick:
            words.append(f"not storing anything: {', '.join(sorted(self._sick))}")
        self._tell("; ".join(words))

    def _tell(self, said: str) -> None:
        if said != self._said:
            self._said = said
            self._say(said)
