"""A NATS server as anybody starts one: a process, a port, a folder. No accounts, no cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from labs import processes
from labs.cluster import fresh_folder
from labs.frame import CannotRun
from shared.bus import Bus, BusOptions
from shared.cluster import find_binary
from shared.errors import ServiceError

LOOPBACK = "127.0.0.1"
READY_S = 10.0
POLL_S = 0.02


class Plain(NamedTuple):
    """A running server."""

    port: int
    process: processes.Process

    @property
    def url(self) -> str:
        """Where it is."""
        return f"nats://{LOOPBACK}:{self.port}"


@asynccontextmanager
async def plain_server() -> AsyncIterator[Plain]:
    """Run a server with JetStream, on a free port; it and its data are gone at the end.

    Raises:
        CannotRun: it does not answer.
    """
    with fresh_folder() as folder:
        ports = folder / "ports"
        ports.mkdir()
        words = [
            "-a",
            LOOPBACK,
            "-p",
            "-1",
            "-js",
            "-sd",
            str(folder / "js"),
            "--ports_file_dir",
            str(ports),
        ]
        process = processes.start([find_binary(), *words], folder / "log")
        try:
            yield Plain(await _port(process, ports), process)
        finally:
            processes.end(process)


async def _port(process: processes.Process, folder: Path) -> int:
    """Return the port that the server chose, once it can be talked to."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until and process.poll() is None:
        for file in list(folder.glob("*.ports")):  # noqa: ASYNC240 - an own small folder
            text = await asyncio.to_thread(file.read_text)
            _, _, after = text.partition(f"nats://{LOOPBACK}:")
            digits = after.partition('"')[0]
            if digits.isdigit() and await _answers(f"nats://{LOOPBACK}:{digits}"):
                return int(digits)
        await asyncio.sleep(POLL_S)
    raise CannotRun("a nats-server did not start")


async def _answers(url: str) -> bool:
    try:
        bus = await Bus.connect(BusOptions(servers=(url,), name="lab"), deadline_s=1.0)
    except ServiceError:
        return False
    await bus.close()
    return True
