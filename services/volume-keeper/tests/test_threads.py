"""Calls to a storage that hangs: each keeps a thread, only so many do, and whoever comes then hears whose volume it is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from shared.errors import Unavailable
from volume_keeper.loops import threads as module
from volume_keeper.loops.threads import Threads

WHOSE = "the volume of pool large"


@pytest.fixture
def storage() -> Iterator[threading.Event]:
    """Hangs until it is set."""
    mended = threading.Event()
    yield mended
    mended.set()


async def test_what_a_call_returns_or_raises_is_its_callers() -> None:
    """In a thread that is none of the loop's."""
    threads = Threads(WHOSE, 1)
    assert await threads.run(threading.get_ident, 30) != threading.get_ident()

    def refuses() -> None:
        raise Unavailable("read-only")

    with pytest.raises(Unavailable, match="read-only"):
        await threads.run(refuses, 30)
    assert await threads.run(lambda: "free again", 30) == "free again"


async def test_a_storage_that_hangs_keeps_so_many_threads_and_no_more(
    storage: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits is told whose volume it is; once all calls hang nobody waits any more; when it is mended, all goes on."""
    monkeypatch.setattr(module, "HANGS_S", 0.0)
    threads, in_it = Threads(WHOSE, 2), list[int]()

    def hangs() -> None:
        in_it.append(threading.get_ident())
        storage.wait()

    for _ in range(2):
        with pytest.raises(Unavailable, match=f"{WHOSE} does not answer within 0.01 s"):
            await threads.run(hangs, 0.01)

    for _ in range(5):
        with pytest.raises(Unavailable, match=f"{WHOSE}: 2 calls have not come back"):
            await threads.run(hangs, 30)
    assert len(in_it) == len(set(in_it)) == 2
    assert threads.hanging == 2
    assert WHOSE in threads.problem()

    storage.set()
    async with asyncio.timeout(30):
        while threads.hanging:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)
    assert threads.problem() == ""
    assert await threads.run(lambda: 1, 30) == 1


async def test_a_call_that_hangs_keeps_no_other_from_its_thread(storage: threading.Event) -> None:
    """As long as there is one left."""
    threads = Threads(WHOSE, 2)
    with pytest.raises(Unavailable):
        await threads.run(storage.wait, 0.01)
    assert [await threads.run(lambda number=number: number, 30) for number in range(9)] == [
        *range(9)
    ]


async def test_more_calls_than_threads_take_turns() -> None:
    """None is refused where all come back."""
    threads = Threads(WHOSE, 2)
    calls = [threads.run(lambda number=number: number, 30) for number in range(40)]
    assert await asyncio.gather(*calls) == [*range(40)]
