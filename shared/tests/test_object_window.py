"""How many chunks of an object are on the way at once."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial

import pytest

from shared.objects import window
from shared.objects.window import WINDOW_CHUNKS_MAX, Window, end


async def chunk(came: asyncio.Event | None = None) -> bytes:
    """Take as long as it takes."""
    if came is not None:
        await came.wait()
    return b""


async def test_quick_chunks_open_the_window_to_its_bound() -> None:
    """And no further."""
    opening = Window()
    for _ in range(3 * WINDOW_CHUNKS_MAX):
        await opening.wait_room()
        await opening.start(chunk)

    assert opening.size == WINDOW_CHUNKS_MAX


async def test_slow_chunks_close_the_window_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow line, pings must not wait behind megabytes; one chunk always goes."""
    closing = Window()
    for _ in range(WINDOW_CHUNKS_MAX):
        await closing.start(chunk)
    monkeypatch.setattr(window, "SLOW_S", -1.0)
    sizes = []
    for _ in range(5):
        await closing.wait_room()
        await closing.start(chunk)
        sizes.append(closing.size)

    assert sizes == [4, 2, 1, 1, 1]


async def test_a_full_window_lets_nobody_in_until_a_chunk_has_come() -> None:
    """Nor after one that was given up."""
    full, came = Window(), asyncio.Event()
    under_way = [full.start(partial(chunk, came)) for _ in range(full.size)]
    waiting = asyncio.create_task(full.wait_room())
    await asyncio.sleep(0)
    assert not full.has_room
    assert not waiting.done()

    under_way[0].cancel()
    await waiting
    assert full.has_room

    came.set()
    await asyncio.gather(*under_way, return_exceptions=True)


async def test_ending_leaves_nothing_on_the_way() -> None:
    """Nor of what had ended already, or had not begun."""
    opened = Window()
    tasks = deque([opened.start(partial(chunk, asyncio.Event())), opened.start(chunk)])
    await asyncio.sleep(0)
    tasks.append(opened.start(chunk))
    await end(tasks)

    assert not tasks
    again = deque(opened.start(chunk) for _ in range(opened.size - 1))
    assert opened.has_room
    await end(again)
