"""The wall of lab 5 is no straw man: without a fault its locks and leases do what they promise."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from labs.servers import plain_server
from labs.shelf import ROOT
from shared.bus import Bus, BusOptions
from shared.testing.look import until

# Behind all others: the programs of a lab are no installed package.
sys.path.append(str(ROOT / "05-push-to-pull"))
from lease import STREAM, Redlock, make_store

TTL_S = 1.0
assert Path(sys.modules["lease"].__file__ or "").is_relative_to(ROOT)


@pytest.fixture
async def servers() -> AsyncIterator[list[Bus]]:
    """Three servers that know nothing of each other."""
    async with AsyncExitStack() as stack:
        buses = []
        for _ in range(3):
            server = await stack.enter_async_context(plain_server())
            bus = await Bus.connect(BusOptions(servers=(server.url,), name="lock"))
            stack.push_async_callback(bus.close)
            await make_store(bus, TTL_S)
            buses.append(bus)
        yield buses


async def test_a_lock_has_one_holder_until_it_is_given_back_or_forgotten(
    servers: list[Bus],
) -> None:
    """Two want it at once; the server forgets one whose holder says nothing any more."""
    first, second = Redlock(servers, "s", TTL_S), Redlock(servers, "s", TTL_S)

    assert await first.take()
    assert not await second.take()
    await first.give_back()
    assert await second.take()
    assert not await first.take()
    await until(first.take, within_s=20)
    assert not second.is_held


async def test_a_lock_is_renewed_for_as_long_as_the_work_takes(servers: list[Bus]) -> None:
    """And given back at its end."""
    lock = Redlock(servers, "s", TTL_S)
    assert await lock.take()
    taken = await entry(servers[0])

    async with lock.renewed():
        await until(lambda: was_written_after(servers[0], taken), within_s=20)

    assert await entry(servers[0]) == 0
    assert not lock.is_held


async def entry(server: Bus) -> int:
    """Return the sequence of the lock's entry on a server; 0: there is none."""
    found = await server.read_last(STREAM, "lock.s")
    return 0 if found is None else found.seq


async def was_written_after(server: Bus, seq: int) -> bool:
    """Return whether the entry is there and newer."""
    return await entry(server) > seq


async def test_a_majority_is_enough_and_less_is_given_back(servers: list[Bus]) -> None:
    """Whoever gets one of three keeps none."""
    for server in servers[:2]:
        await server.compare_and_set("lock.s", b"another", expected_seq=0)
    lock = Redlock(servers, "s", TTL_S)

    assert not await lock.take()
    assert await entry(servers[2]) == 0
    await servers[0].js_api(f"STREAM.PURGE.{STREAM}")
    assert await lock.take()
