"""A sandbox whose code runs on a lease: none, no code; over, and everything stands still until there is another."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.testing.look import until


@pytest.fixture
async def kit(start: Any) -> AsyncIterator[Any]:
    """A runner that needs a lease."""
    made = await start(leased=True).connect()
    yield made
    await made.channel.close()


COUNT = "import time\nwhile True:\n    open('beat', 'a').write('x')\n    time.sleep(0.01)"


def lease(kit: Any, for_s: float) -> None:
    """Give the sandbox a lease from now on."""
    kit.channel.lease(time.clock_gettime_ns(time.CLOCK_BOOTTIME) + round(for_s * 1e9))


def size(path: Path) -> int:
    """Return a file's size, 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


async def grows(path: Path) -> None:
    """Return when a file has grown."""
    before = size(path)
    await until(lambda: size(path) > before)


async def stands(path: Path) -> int:
    """Return a file's size when that has not changed for a while."""
    async with asyncio.timeout(20):
        while True:
            before = size(path)
            await asyncio.sleep(0.3)
            if before == size(path):
                return before


async def test_nothing_runs_and_nothing_is_written_before_the_first_lease(kit: Any) -> None:
    """A task and a file wait for it; both come with it, in their order."""

    async def content() -> AsyncIterator[bytes]:
        yield b"print(open('given').read())"

    writing = asyncio.create_task(kit.channel.files.write("given", content()))
    running = asyncio.create_task(kit.shell("cat given"))
    await asyncio.sleep(0.3)
    assert os.listdir(kit.workspace) == []  # noqa: PTH208 - of a moment

    lease(kit, 20)
    await writing
    assert (await running).stdout == b"print(open('given').read())"


async def test_code_stands_still_at_the_end_of_its_lease_without_a_word(kit: Any) -> None:
    """By the sandbox's own clock: the sidecar says nothing. The next lease lets it go on."""
    beat = kit.workspace / "beat"
    running = asyncio.create_task(kit.python(COUNT))
    async with asyncio.timeout(20):
        while size(beat) == 0:  # a busy machine may need more than one lease to begin
            lease(kit, 1.0)
            await asyncio.sleep(0.1)

    assert await stands(beat) > 0
    assert not running.done()
    lease(kit, 20)
    await grows(beat)
    kit.channel.stop(0)
    assert (await running).exit.signal == 9


async def test_a_lease_that_is_over_when_it_comes_is_none(kit: Any) -> None:
    """What a machine that stood still finds on its desk moves nothing."""
    running = asyncio.create_task(kit.shell("touch ran"))
    lease(kit, -0.5)
    await asyncio.sleep(0.3)
    assert os.listdir(kit.workspace) == []  # noqa: PTH208 - of a moment

    lease(kit, 20)
    await running
    assert os.listdir(kit.workspace) == ["ran"]  # noqa: PTH208 - likewise


async def test_what_is_frozen_stays_so_when_a_lease_comes_and_the_other_way_round(
    kit: Any,
) -> None:
    """Two reasons to stand still: code goes on when there is neither."""
    beat = kit.workspace / "beat"
    lease(kit, 20)
    running = asyncio.create_task(kit.python(COUNT))
    await grows(beat)

    await kit.channel.freeze()
    lease(kit, 30)
    await stands(beat)
    await kit.channel.thaw()
    await grows(beat)
    kit.channel.stop(0)
    await running


@pytest.mark.parametrize("first", ["lease", "thaw"])
async def test_a_task_that_waits_for_a_lease_waits_for_the_thaw_too(kit: Any, first: str) -> None:
    """It was sent before everything was to stand still: it runs when there is a lease and nobody wants that any more."""
    running = asyncio.create_task(kit.shell("touch ran"))
    await asyncio.sleep(0.3)
    await kit.channel.freeze()
    if first == "lease":
        lease(kit, 60)
    else:
        await kit.channel.thaw()
    await asyncio.sleep(0.3)
    assert os.listdir(kit.workspace) == []  # noqa: PTH208 - of a moment

    if first == "lease":
        await kit.channel.thaw()
    else:
        lease(kit, 60)
    await running
    assert os.listdir(kit.workspace) == ["ran"]  # noqa: PTH208 - likewise


async def test_without_leases_one_is_an_error(start: Any) -> None:
    """A sandbox that needs none is not told of one."""
    kit = await start().connect()
    lease(kit, 5)
    failure = await kit.channel.wait_lost()
    assert "closed" in str(failure) or "malformed" in str(failure)
    await kit.channel.close()
