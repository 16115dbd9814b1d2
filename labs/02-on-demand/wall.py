"""The wall: for each request everything that a pod is gets started, while the request waits."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import load

from labs.frame import CannotRun, Figures, Say, side
from labs.servers import plain_server
from shared.percentiles import percentile

POD = Path(__file__).with_name("pod.py")
PARTS = ("process", "imports", "connection", "first_instruction")


class Pods:
    """Starts pods, and keeps what each part of a start took."""

    def __init__(self, server: str) -> None:
        """Let them connect to this server."""
        self._server = server
        self.parts: list[list[float]] = []

    async def start(self) -> float:
        """Start a pod; return the time to its user's first instruction, milliseconds."""
        asked = time.time()
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(POD), self._server, stdout=subprocess.PIPE
        )
        told, _ = await process.communicate()
        if process.returncode != 0:
            raise CannotRun(f"a pod ended with code {process.returncode}")
        moments = [asked, *json.loads(told)]
        self.parts.append(
            [(after - before) * 1000 for before, after in itertools.pairwise(moments)]
        )
        return (moments[-1] - asked) * 1000


async def measure(say: Say) -> Figures:
    """Start a pod for each request, at climbing rates."""
    async with _pods() as pods:
        await pods.start()  # the libraries come from the disk once
        pods.parts.clear()
        figures = await load.measure(pods.start, say)
        alone = pods.parts[: load.ALONE]
    parts = [percentile([one[n] for one in alone], 50) for n in range(len(PARTS))]
    return figures | {f"{name}_ms": value for name, value in zip(PARTS, parts, strict=True)}


@asynccontextmanager
async def _pods() -> AsyncIterator[Pods]:
    async with plain_server() as server:
        yield Pods(server.url)


if __name__ == "__main__":
    side(measure)
