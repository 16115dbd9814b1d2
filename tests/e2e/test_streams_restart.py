"""All servers start again in mid-stream: stored output is gone, and what readers are told is honest."""

from __future__ import annotations

import asyncio

import pytest
from tests.e2e.conftest import StartRough
from tests.e2e.streamed import Site, collect, shown

from agent_sandbox import Client, ClientOptions, Missing, Output

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

POOLS = """\
[[pool]]
name = "default"
stock = 2
"""
LINES = 100
COUNT = f"for i in $(seq {LINES}); do echo $i; sleep 0.1; done"
NUMBERS = b"".join(b"%d\n" % n for n in range(1, LINES + 1))


async def test_readers_before_and_after_it_are_told_the_truth(start_rough: StartRough) -> None:
    """Straight, and over a gateway from a position of before: every byte is shown or missing, in order, and the end."""
    cluster = await start_rough(POOLS)
    site = await asyncio.to_thread(Site, cluster.folder)
    options = ClientOptions(servers=site.urls, token=site.token)
    async with cluster.client() as client, Client(options) as through:
        task = await client.start(shell=COUNT)
        stayed = asyncio.create_task(collect(task.events()))
        first = []
        async for event in site.events(task.task_id):
            first.append(event)
            if len(first) == 10:
                break
        async with cluster.without_servers("n1", "n2", "n3"):
            pass
        await cluster.whole()
        async with await through.attach(task.task_id, after=first[-1].id) as again:
            rest = await collect(again.events())
        async with await client.attach(task.task_id) as anew:
            whole = await collect(anew.events())
        result = await task.result()

    assert result.raw.attempt == 1
    assert result.stdout.encode() == NUMBERS
    before = shown(first)
    for events, start in ((await stayed, b""), (whole, b""), (rest, before)):
        data = start
        for event in events:
            if isinstance(event, Output):
                assert event.offset == len(data)
                data += event.data
            elif isinstance(event, Missing):
                data += b"?" * (event.size or 0)
        assert len(data) == len(NUMBERS)
        assert all(a in (b, ord("?")) for a, b in zip(data, NUMBERS, strict=True))
        assert b"?" not in data, "the result keeps all of so little"
