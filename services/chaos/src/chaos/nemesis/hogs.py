"""Neighbours that take what the machine has: processors, memory, connections."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import ClassVar
from urllib.parse import urlsplit

from chaos.core.dice import Dice
from chaos.nemesis.base import Base, aside
from chaos.nemesis.processes import GONE_S
from chaos.ports import Injected, NoVictim, Site

HOG_MIB = 1024
STORM = 300
DIAL_S = 5.0
_WITH_US = """\
import os, sys, threading
def watch():
    sys.stdin.buffer.read()
    os._exit(0)
threading.Thread(target=watch, daemon=True).start()
"""
"""A hog ends with the process that started it, however that ends."""


class _Hogs(Base):
    """Programs beside the cluster."""

    code: ClassVar[str]
    """What each runs; it writes a line when it has what it wants."""

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._hogs: list[subprocess.Popen[bytes]] = []
        self._ran = False

    def count(self) -> int:
        """Return how many there are to be."""
        return 1

    async def inject(self) -> Injected:
        """See `Fault`."""
        at_s = self.site.now()
        words = [sys.executable, "-c", _WITH_US + self.code]
        for _ in range(self.count()):
            hog = await aside(
                subprocess.Popen, words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self._hogs.append(hog)
        for hog in self._hogs:
            assert hog.stdout is not None
            await aside(hog.stdout.readline)
        return self.done([f"hog-{hog.pid}" for hog in self._hogs], at_s)

    async def heal(self) -> None:
        """See `Fault`."""
        if not self._hogs:
            return
        self._ran = all(hog.poll() is None for hog in self._hogs)
        for hog in self._hogs:
            hog.kill()
            await aside(hog.communicate, timeout=GONE_S)
        self._hogs.clear()

    async def missed(self) -> str:
        """See `Base`."""
        return "" if self._ran else "a hog ended before its time"


class ProcessorHogs(_Hogs):
    """Twice as many programs as the machine has processors do nothing but compute."""

    name = "processor-hogs"
    lasts_s = 30.0
    code = "print('ready', flush=True)\nwhile True: pass\n"

    def count(self) -> int:
        """See `_Hogs`."""
        return 2 * (os.cpu_count() or 1)


class MemoryHog(_Hogs):
    """A program takes a GiB of memory and goes on using it."""

    name = "memory-hog"
    lasts_s = 30.0
    code = f"""\
import time
taken = bytearray({HOG_MIB} << 20)
print('ready', flush=True)
while True:
    for place in range(0, len(taken), 4096): taken[place] ^= 1
    time.sleep(0.5)
"""


class ConnectionStorm(Base):
    """Hundreds of connections to edges and gateways that say nothing are open at once."""

    name = "connection-storm"
    lasts_s = 30.0

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._open: list[asyncio.StreamWriter] = []
        self._dialled = 0

    async def inject(self) -> Injected:
        """See `Fault`."""
        cluster = self.site.folder.read()
        places = [urlsplit(url).netloc for url in (*cluster.servers, *cluster.gateways)]
        if not places:
            raise NoVictim("no edge and no gateway is there")
        at_s = self.site.now()
        for number in range(STORM):
            host, _, port = places[number % len(places)].rpartition(":")
            try:
                async with asyncio.timeout(DIAL_S):
                    _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                continue
            self._open.append(writer)
        self._dialled = len(self._open)
        return self.done(places, at_s, f"{self._dialled} connections")

    async def heal(self) -> None:
        """See `Fault`."""
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def missed(self) -> str:
        """See `Base`."""
        return "" if self._dialled > STORM / 2 else f"{self._dialled} of {STORM} were taken"
