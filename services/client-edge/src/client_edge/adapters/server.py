"""Whether the server behind the edge takes clients: one is dialled now and then, until it says who it is."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

EVERY_S = 1.0
ANSWER_S = 1.0
"""As long as a client waits for it."""
INFO = b"INFO "


class ServerWatch:
    """Dials one server again and again."""

    def __init__(self, host: str, port: int) -> None:
        """Watch the server at `host` and `port`."""
        self._host, self._port = host, port
        self._problem = "not dialled yet"

    def problem(self) -> str:
        """Return why clients could do nothing here; empty: they can."""
        return self._problem

    async def run(self) -> None:
        """Dial once a second, until cancelled."""
        while True:
            began = time.monotonic()
            self._problem = await self._dial()
            await asyncio.sleep(max(0.0, began + EVERY_S - time.monotonic()))

    async def _dial(self) -> str:
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(ANSWER_S):
                reader, writer = await asyncio.open_connection(self._host, self._port)
                if await reader.readexactly(len(INFO)) != INFO:
                    return "it is no NATS server"
        except TimeoutError:
            return f"no word within {ANSWER_S:g} s"
        except (OSError, asyncio.IncompleteReadError) as exc:
            return str(exc) or type(exc).__name__
        else:
            return ""
        finally:
            if writer is not None:
                with suppress(OSError):
                    writer.transport.abort()
