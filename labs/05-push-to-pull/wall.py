"""The wall: an allocator with a lease, locks by Redlock, and pushes. Then somebody stands still."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import allocator
import lease
import store
from clients import Clients
from faults import Side, drive

from labs import processes
from labs.frame import CannotRun, Figures, Say, side
from labs.servers import plain_server
from shared.bus import Bus
from shared.testing.relay import Relay

HERE = Path(__file__).parent
LOCK_SERVERS = 3


async def measure(say: Say) -> Figures:
    """Let two allocators and three workers serve six users, and break things."""
    async with _system() as system:
        return await drive(system, say)


@asynccontextmanager
async def _system() -> AsyncIterator[Side]:
    async with AsyncExitStack() as stack:
        queue = await stack.enter_async_context(plain_server())
        locks = [await stack.enter_async_context(plain_server()) for _ in range(LOCK_SERVERS)]
        bus = await store.connect(queue.url, "users")
        stack.push_async_callback(bus.close)
        await store.make_streams(bus)
        await lease.make_store(bus, allocator.LEASE_S)
        for server in locks:
            admin = await store.connect(server.url, "maker")
            await lease.make_store(admin, allocator.LOCK_S)
            await admin.close()
        relay = stack.enter_context(closing(Relay()))
        links = {name: relay.link(queue.port) for name in allocator.WORKERS}
        started = stack.enter_context(processes.ended())
        running = {}
        for name, link in links.items():
            words = [sys.executable, HERE / "push_worker.py", name, f"nats://127.0.0.1:{link.port}"]
            running[name] = processes.start(words)
        urls = [server.url for server in locks]
        for name in ("a1", "a2"):
            words = [sys.executable, HERE / "allocator.py", name, queue.url, *urls]
            running[name] = processes.start(words)
        started += running.values()
        await store.wait_ready(bus, running)
        yield Side(Clients(bus), running, links, relay, lambda _: _leader(bus))


async def _leader(bus: Bus) -> str:
    """Return the allocator that holds the lease."""
    found = await bus.read_last(lease.STREAM, "lock.leader")
    if found is None:
        raise CannotRun("no allocator leads")
    return found.data.decode()


if __name__ == "__main__":
    side(measure)
