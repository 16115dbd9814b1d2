"""Who gets the only sandbox of a pool: the most urgent that waits, and batch its share."""

from __future__ import annotations

import asyncio

from agent_sandbox import Client

POOL = "narrow"
"""One sandbox at a time; batch goes first once in five times."""


async def test_interactive_goes_before_a_backlog_and_batch_does_not_starve(client: Client) -> None:
    """Eight batch tasks wait when eight interactive ones come."""
    blocking = await client.start(shell="sleep 1", pool=POOL)
    batch = [await client.start(["true"], pool=POOL, klass="batch") for _ in range(8)]
    urgent = [await client.start(["true"], pool=POOL) for _ in range(8)]

    assert (await blocking.result()).ok
    results = await asyncio.gather(*(task.result() for task in (*batch, *urgent)))

    names = {task.task_id: "batch" for task in batch}
    order = sorted(results, key=lambda result: result.raw.timing.started_ms)
    classes = [names.get(result.task_id, "interactive") for result in order]
    assert all(result.ok for result in results)
    assert classes[:10].count("interactive") >= 7, classes
    assert classes[:10].count("batch") >= 1, classes
