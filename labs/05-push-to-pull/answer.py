"""The answer: workers take from the queue, and what they write is fenced. There is nobody to hold anything."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import store
from clients import Clients
from faults import Side, drive

from labs import processes
from labs.frame import Figures, Say, side
from labs.servers import plain_server
from shared.testing.relay import Relay

HERE = Path(__file__).parent
WORKERS = ("w1", "w2", "w3", "w4")


async def measure(say: Say) -> Figures:
    """Let four workers serve six users, and break the same things."""
    async with _system() as system:
        return await drive(system, say)


@asynccontextmanager
async def _system() -> AsyncIterator[Side]:
    async with AsyncExitStack() as stack:
        queue = await stack.enter_async_context(plain_server())
        bus = await store.connect(queue.url, "users")
        stack.push_async_callback(bus.close)
        await store.make_streams(bus)
        relay = stack.enter_context(closing(Relay()))
        links = {name: relay.link(queue.port) for name in WORKERS}
        started = stack.enter_context(processes.ended())
        running = {}
        for name, link in links.items():
            words = [sys.executable, HERE / "pull_worker.py", name, f"nats://127.0.0.1:{link.port}"]
            running[name] = processes.start(words)
        started += running.values()
        await store.wait_ready(bus, running)
        yield Side(Clients(bus), running, links, relay, _owner)


async def _owner(effect: store.Effect) -> str:
    """Return the worker itself: nobody else holds a session."""
    return effect.worker


if __name__ == "__main__":
    side(measure)
