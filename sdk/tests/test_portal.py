"""Calls into an event loop on a thread of its own: interrupts, threads, forks, and the end."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator, Iterator
from types import FrameType

import pytest

from agent_sandbox import SyncClient
from agent_sandbox.sync.portal import Portal
from shared.errors import OutcomeUnknown, Unavailable


@pytest.fixture
def portal() -> Iterator[Portal]:
    """A portal, closed at the end."""
    made = Portal()
    yield made
    made.stop()


async def value(given: int) -> int:
    """Return what is given."""
    await asyncio.sleep(0)
    return given


async def fail() -> None:
    """Fail."""
    raise Unavailable("not now")


def test_a_call_returns_and_raises_what_its_work_does(portal: Portal) -> None:
    """With the caller's own line in the traceback."""
    assert portal.call(value(6)) == 6
    with pytest.raises(Unavailable, match="not now") as failed:
        portal.call(fail())
    assert any(entry.name.startswith("test_a_call") for entry in failed.traceback)


def test_many_threads_share_a_portal(portal: Portal) -> None:
    """Each gets its own answer."""
    got: dict[int, int] = {}

    def ask(number: int) -> None:
        got[number] = portal.call(value(number * number))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert got == {number: number * number for number in range(16)}


def test_an_interrupt_cancels_the_work_and_waits_for_its_end(portal: Portal) -> None:
    """As `^C` does while a task runs: what the work does in its end, such as to cancel a task, is done."""
    seen: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            seen.append("cleaned up")
            raise

    with pytest.raises(KeyboardInterrupt):
        portal.call(work())

    assert seen == ["cleaned up"]
    assert portal.call(value(1)) == 1


def test_a_second_interrupt_goes_out_at_once(portal: Portal) -> None:
    """Whoever presses it twice does not want to wait for anything."""
    ended = threading.Event()

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.to_thread(ended.wait, 20)
            raise

    with pytest.raises(KeyboardInterrupt):
        portal.call(work())

    assert not ended.is_set()
    ended.set()


def test_any_exception_of_a_signal_handler_ends_the_call(portal: Portal) -> None:
    """Such as a test runner's or web server's own time limit."""

    class TooLong(Exception):
        pass

    def expire(_number: int, _frame: FrameType | None) -> None:
        raise TooLong

    cancelled = threading.Event()

    async def work() -> None:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    before = signal.signal(signal.SIGALRM, expire)
    try:
        with pytest.raises(TooLong):
            portal.call(work())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert cancelled.is_set()


def test_a_generator_that_is_left_early_is_closed(portal: Portal) -> None:
    """Its connection goes with it."""
    closed: list[int] = []

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            for number in range(100):
                yield number
        finally:
            closed.append(1)

    assert list(portal.iterate(numbers())) == list(range(100))
    taken = portal.iterate(numbers())
    assert [next(taken), next(taken)] == [0, 1]
    taken.close()  # type: ignore[attr-defined]  # it is a generator

    assert closed == [1, 1]


def test_what_waits_when_the_client_is_closed_is_told(portal: Portal) -> None:
    """It may have happened: nobody knows."""
    begun = threading.Event()
    caught: list[BaseException] = []

    async def work() -> None:
        begun.set()
        await asyncio.sleep(60)

    def wait() -> None:
        try:
            portal.call(work())
        except OutcomeUnknown as exc:
            caught.append(exc)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(10)
    portal.stop()
    waiting.join(10)

    assert [str(exc) for exc in caught] == ["the client was closed in the middle of the call"]
    with pytest.raises(RuntimeError, match="closed"):
        portal.call(value(1))


def test_a_call_from_the_portals_own_thread_is_refused(portal: Portal) -> None:
    """It would wait for itself for ever: a callback that calls the client."""

    async def call_again() -> int:
        return portal.call(value(1))

    with pytest.raises(RuntimeError, match="own thread"):
        portal.call(call_again())


def test_a_child_of_a_fork_is_told_to_make_its_own(portal: Portal) -> None:
    """The thread is not there: it would wait for ever. And to leave the client there closes nothing of the parent's."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            portal.call(value(1))
        except RuntimeError as exc:
            portal.stop()
            code = 0 if "forked" in str(exc) else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert portal.call(value(2)) == 2


def test_a_client_that_is_not_connected_says_how() -> None:
    """Instead of an AttributeError."""
    client = SyncClient()
    with pytest.raises(RuntimeError, match="with SyncClient"):
        client.run("true")
    client.close()
