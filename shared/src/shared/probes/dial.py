"""Whether NATS servers, or edges before them, take clients: one is dialled now and then, until it says who it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

EVERY_S: Final = 1.0
ANSWER_S: Final = 1.0
"""As long as a client waits for it."""
INFO: Final = b"INFO "
PORT: Final = 4222


def place_of(url: str) -> tuple[str, int]:
    """Return host and port of a server's address, `nats://host:port` or `host:port`."""
    parts = urlsplit(url if "://" in url else f"nats://{url}")
    return parts.hostname or "", parts.port or PORT


class ServerWatch:
    """Dials again and again; content while one of the places answers, the last good one first."""

    def __init__(self, places: Sequence[tuple[str, int]]) -> None:
        """Watch the servers at these hosts and ports."""
        self._places = list(places)
        self._problem = "not dialled yet"

    def problem(self) -> str:
        """Return why clients could do nothing there; empty: they can."""
        return self._problem

    async def run(self) -> None:
        """Dial once a second, until cancelled."""
        while True:
            began = time.monotonic()
            await self.look()
            await asyncio.sleep(max(0.0, began + EVERY_S - time.monotonic()))

    async def look(self) -> None:
        """Dial now; takes a second for each place at most."""
        problems = []
        for place in list(self._places):
            problem = await dial(*place)
            if not problem:
                self._places.remove(place)
                self._places.insert(0, place)
                self._problem = ""
                return
            problems.append(problem)
        self._problem = "; ".join(problems)


async def dial(host: str, port: int) -> str:
    """Return why a server takes no client; empty: it does."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(host, port)
            said = await reader.readexactly(len(INFO))
    except TimeoutError:
        return f"{host}:{port}: no word within {ANSWER_S:g} s"
    except (OSError, asyncio.IncompleteReadError) as exc:
        return f"{host}:{port}: {exc}"
    else:
        return "" if said == INFO else f"{host}:{port}: it is no NATS server"
    finally:
        if writer is not None:
            writer.transport.abort()
