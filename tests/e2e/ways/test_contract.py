"""One contract, four ways to it: straight on NATS and through gateways, with an event loop and without.

The tests are written for the async client; the synchronous one takes them with each call on a thread (`Threaded`).
"""

from __future__ import annotations

import io
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox import (
    Client,
    Missing,
    Output,
    Progress,
    Started,
    TaskFailed,
)
from shared.views import ListAsk, SessionsAnswer, TasksAnswer, TasksAsk

LARGE = random.Random(5).randbytes(300 * 1024)
"""More than a task's message carries: it goes by reference."""


async def test_a_program_runs_and_its_result_says_how(caller: Any) -> None:
    """What it wrote, how it ended, how long it took from the caller's call to its first instruction."""
    result = await caller.run(
        ["sh", "-c", "cat note; echo $WORD >&2; exit 3"],
        files={"note": "text"},
        env={"WORD": "err"},
        klass="batch",
    )

    assert (result.stdout, result.stderr, result.exit_code) == ("text", "err\n", 3)
    assert (result.ok, result.status, result.reason) == (False, "failed", "exit_code")
    assert 0 < result.tti_s < result.total_s
    assert result.tti is not None
    assert result.task_id == result.session_id
    with pytest.raises(TaskFailed) as failed:
        result.check()
    assert (failed.value.code, failed.value.result) == ("task_failed", result)


async def test_a_session_keeps_files_and_interpreter(caller: Any) -> None:
    """From task to task, until it is closed; then it takes nothing more."""
    async with await caller.create_session() as session:
        await session.python("x = 6")
        assert (await session.python("print(x * 7)")).stdout == "42\n"
        await session.write("in/a.txt", b"\xff\x00")
        assert (await session.exec("wc -c < a.txt", cwd="in")).stdout.strip() == "2"
        assert await session.read("in/a.txt") == b"\xff\x00"
        assert [entry.name for entry in await session.list("in")] == ["a.txt"]
        await session.remove("in", recursive=True)
        with pytest.raises(TaskFailed, match=r"in/a\.txt"):
            await session.read("in/a.txt")
        shown = await session.show()
        same = caller.session(session.id)
        assert (await same.python("print(x)")).stdout == "6\n"
        tasks = await caller.ask("tasks", TasksAsk(session=session.id), TasksAnswer)
        page = await caller.ask("sessions", ListAsk(limit=500), SessionsAnswer)
    after = await same.exec("true")

    assert shown.record.keep
    assert len(tasks.tasks) >= 8
    assert session.id in {row.session for row in page.sessions}
    assert (after.status, after.ok) == ("rejected", False)


async def test_content_of_any_size_goes_both_ways(caller: Any, tmp_path: Path) -> None:
    """By reference, with its progress told: into a session and out of it."""
    told: list[tuple[int, int | None]] = []
    async with await caller.create_session(files={"first": LARGE}) as session:
        await session.upload(io.BytesIO(LARGE), "big", on_progress=lambda *at: told.append(at))
        assert (await session.exec("cmp first big && wc -c < big")).stdout.strip() == str(
            len(LARGE)
        )
        await session.download("big", tmp_path / "big")
        assert await session.read("big") == LARGE

    assert (tmp_path / "big").read_bytes() == LARGE
    assert told == sorted(told)
    assert told[-1] == (len(LARGE), len(LARGE))


async def test_outputs_are_objects_that_can_be_read_and_dropped(
    caller: Any, client: Client
) -> None:
    """In pieces, whole, and then no more."""
    result = await caller.run(shell="cp in out", files={"in": LARGE}, outputs=["out"])
    reference = result.check().outputs["out"]
    copied = io.BytesIO()
    await caller.objects.get(reference, copied)
    pieces = [piece async for piece in caller.objects.read(reference)]
    put = await caller.objects.put(b"small")
    small = [piece async for piece in caller.objects.read(put)]
    await caller.objects.drop(reference.id, put.id)

    assert copied.getvalue() == b"".join(pieces) == LARGE
    assert small == [b"small"]
    assert await client.transport.chunks.get(reference.id, 0, within_s=5) is None


async def test_events_come_in_order_and_end_with_the_task(caller: Any) -> None:
    """Start, output of both streams; then the result is there."""
    shell = "for n in 1 2 3; do echo out$n; echo err$n >&2; sleep 0.02; done"
    async with await caller.start(shell=shell) as task:
        events = [event async for event in task.events() if not isinstance(event, Progress)]
        result = await task.result(wait_s=10)
    texts = {
        name: b"".join(
            event.data for event in events if isinstance(event, Output) and event.stream == name
        )
        for name in ("stdout", "stderr")
    }

    assert isinstance(events[0], Started)
    assert not any(isinstance(event, Missing) for event in events)
    assert texts == {"stdout": b"out1\nout2\nout3\n", "stderr": b"err1\nerr2\nerr3\n"}
    assert texts["stdout"].decode() == result.stdout
    assert task.has_started


async def test_a_task_can_be_attached_to_while_it_runs_and_after(caller: Any) -> None:
    """From the first event on, or behind one that was read: by its id alone."""
    async with await caller.start(shell="echo one; until [ -e go ]; do sleep 0.02; done") as task:
        read = [event async for event in _until_output(task)]
        async with await caller.attach(task.task_id) as again:
            seen = [event async for event in _until_output(again)]
        cancelled = await task.cancel()
        result = await task.result(wait_s=10)
    async with await caller.attach(task.task_id, after=read[-1].position) as late:
        rest = [event async for event in late.events()]
        same = await late.result(wait_s=10)

    assert [event.data for event in seen if isinstance(event, Output)] == [b"one\n"]
    assert cancelled.outcome == "cancelled"
    assert (result.status, rest, same.raw) == ("cancelled", [], result.raw)


async def _until_output(task: Any) -> AsyncIterator[Any]:
    events = task.events()
    async for event in events:
        yield event
        if isinstance(event, Output):
            break
    await events.aclose()


async def test_a_terminal_is_typed_into(caller: Any) -> None:
    """And read until its program has ended."""
    async with await caller.create_session() as session, session.shell("cat") as shell:
        await shell.resize(30, 90)
        await shell.write("typed\r")
        await shell.write("\x04")
        shown = b"".join(
            [event.data async for event in shell.events() if isinstance(event, Output)]
        )
        result = await shell.result(wait_s=10)

    assert shown.count(b"typed") == 2  # its echo, and what cat says
    assert result.exit_code == 0
