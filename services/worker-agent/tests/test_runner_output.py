"""What tasks and their background processes write, on its way through a real runner."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any

from worker_agent.adapters.runner import Run, Watch

BACKGROUND_GRACE_S = 0.2


def resident_kib(pid: int) -> int:
    """Return the memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


async def test_any_byte_passes(runner: Any) -> None:
    """Output is bytes, not text."""
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)"
    outcome = await runner.run(kind="command", argv=(sys.executable, "-c", code))

    assert outcome.stdout == bytes(range(256)) * 1000


async def test_output_of_200_mb_reaches_a_slow_reader_whole_and_in_bounded_memory(
    runner: Any,
) -> None:
    """The writer waits; neither the runner nor the sidecar's buffers grow."""
    before_kib = resident_kib(runner.process.pid)
    taken = peak_kib = pieces = 0

    async def on_output(_stream: str, data: bytes) -> None:
        nonlocal taken, peak_kib, pieces
        taken += len(data)
        pieces += 1
        if pieces % 100 == 0:
            peak_kib = max(peak_kib, resident_kib(runner.process.pid))
            await asyncio.sleep(0.005)  # the slowness under test

    async def on_started(_at_ns: int) -> None:
        pass

    run = Run(task="big", kind="command", shell="head -c 200000000 /dev/zero")
    end = await runner.channel.run(run, Watch(on_started, on_output))

    assert (end.exit_code, taken) == (0, 200_000_000)
    assert peak_kib - before_kib < 8 * 1024


async def test_a_reader_that_stands_still_holds_up_no_answer(runner: Any) -> None:
    """While output waits to be taken, the sidecar can freeze, read files, and kill."""
    blocked, taken = asyncio.Event(), asyncio.Event()

    async def on_output(_stream: str, _data: bytes) -> None:
        blocked.set()
        await taken.wait()

    async def on_started(_at_ns: int) -> None:
        pass

    run = Run(task="endless", kind="command", shell="yes")
    running = asyncio.create_task(runner.channel.run(run, Watch(on_started, on_output)))
    await blocked.wait()
    await asyncio.sleep(0.2)  # lets the window and the pipe fill up
    await runner.channel.freeze()
    assert (await runner.channel.files.list(".")).entries == ()
    await runner.channel.thaw()
    runner.channel.stop(0)
    taken.set()

    assert (await running).signal == signal.SIGKILL


async def test_a_background_process_does_not_hold_the_task_up(any_runner: Any) -> None:
    """The task ends a moment after its own process, although the pipe is still open."""
    began_s = time.monotonic()
    outcome = await any_runner.shell("sleep 50 & echo $!")
    took_s = time.monotonic() - began_s

    assert (outcome.exit.exit_code, outcome.stdout.strip().isdigit()) == (0, True)
    assert BACKGROUND_GRACE_S <= took_s < 10


async def test_a_background_process_lives_on_and_stays_out_of_later_output(any_runner: Any) -> None:
    """It can go on writing; nobody sees it, and it does not die of a closed pipe."""
    writer = "while :; do echo noise; echo noise >&2; : > alive; sleep 0.01; done & echo mine"
    first = await any_runner.shell(writer)
    alive = any_runner.workspace / "alive"
    for _ in range(3):
        alive.unlink(missing_ok=True)
        later = await any_runner.shell(
            "while [ ! -e alive ]; do sleep 0.01; done; echo later; sleep 0.05"
        )
        assert (later.stdout, later.stderr) == (b"later\n", b"")
    python = await any_runner.python("print('python')")

    assert b"mine\n" in first.stdout
    assert python.stdout == b"python\n"


async def test_output_that_background_processes_flood_ends_with_the_task(runner: Any) -> None:
    """A child that never stops writing can't keep its parent's task open."""
    async with asyncio.timeout(20):
        outcome = await runner.shell("yes & echo $! > flooding; echo first")

    assert outcome.exit.exit_code == 0
    assert (await runner.shell("echo next; kill $(cat flooding)")).stdout == b"next\n"


async def test_a_process_that_steals_the_output_can_not_keep_the_task_open(runner: Any) -> None:
    """What another process reads out of the pipe is not waited for."""
    async with asyncio.timeout(20):
        outcome = await runner.shell(
            "cat < /dev/fd/1 > stolen & sleep 0.2; printf %70000d 1; sleep 0.1"
        )

    assert outcome.exit.exit_code == 0
