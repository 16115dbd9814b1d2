"""The async client against a real cluster."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from agent_sandbox import (
    Client,
    InvalidMessage,
    NoResultYet,
    NotFound,
    Output,
    Started,
    TaskFailed,
)
from shared import subjects
from shared.limits import RESULT_OUTPUT_BYTES_MAX


async def test_a_result_tells_how_it_ended_and_how_long_it_took(client: Client) -> None:
    """What a caller needs in most cases, in one object."""
    result = await client.run(["python3", "-c", "print(6 * 7)"])

    assert (result.ok, result.stdout, result.exit_code) == (True, "42\n", 0)
    assert result.tti_s is not None
    assert 0 < result.tti_s <= result.total_s


async def test_a_failed_command_is_a_result_and_check_makes_it_an_exception(client: Client) -> None:
    """The caller decides whether an exit code is an error."""
    result = await client.run(shell="exit 3")

    with pytest.raises(TaskFailed, match="exit code 3") as failed:
        result.check()

    assert failed.value.result.exit_code == 3
    assert failed.value.did_nothing is False


async def test_output_is_streamed_in_order_while_the_task_runs(client: Client) -> None:
    """Pieces come before the task's end, with offsets that fit together."""
    task = await client.start(shell="for i in 1 2 3; do echo $i; sleep 0.1; done; echo x >&2")

    events = [event async for event in task.events()]
    result = await task.result()
    outputs = [event for event in events if isinstance(event, Output)]

    assert isinstance(events[0], Started)
    assert b"".join(out.data for out in outputs if out.stream == "stdout") == b"1\n2\n3\n"
    assert [out.data for out in outputs if out.stream == "stderr"] == [b"x\n"]
    assert len(outputs) >= 4
    assert result.stdout == "1\n2\n3\n"


async def test_much_output_arrives_whole_and_the_result_keeps_its_end(client: Client) -> None:
    """Live there is all of it; the stored result says that it was cut."""
    size = 3 * RESULT_OUTPUT_BYTES_MAX
    task = await client.start(["python3", "-c", f"print('x' * {size - 1})"])

    pieces = [event.data async for event in task.events() if isinstance(event, Output)]
    result = await task.result()

    assert len(b"".join(pieces)) == size
    assert result.raw.stdout.truncated
    assert result.raw.stdout.size == size


async def test_the_same_id_runs_once(client: Client) -> None:
    """Published twice under one id: one run, and both callers get its result."""
    task_id = str(uuid.uuid4())

    first = await client.run(shell="cat /proc/sys/kernel/random/uuid", task_id=task_id)
    second = await client.run(shell="cat /proc/sys/kernel/random/uuid", task_id=task_id)

    assert first.stdout == second.stdout
    assert second.task_id == task_id


async def test_cancelling_the_caller_leaves_the_task_running(client: Client) -> None:
    """A task is durable: it goes on without its caller, and its result is there for who knows the id."""
    task_id, started = str(uuid.uuid4()), asyncio.Event()
    await client.bus.subscribe(subjects.output("default", task_id), lambda _: started.set())
    running = asyncio.create_task(client.run(shell="sleep 0.3; echo done", task_id=task_id))
    async with asyncio.timeout(20):
        await started.wait()

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    again = await client.run(shell="true", task_id=task_id)  # the same id: no second run

    assert running.cancelled()
    assert again.stdout == "done\n"


@pytest.mark.parametrize(
    "after_start", [True, False], ids=["while it runs", "while it is published"]
)
async def test_the_task_ends_with_its_caller_where_he_said_so(
    client: Client, after_start: bool
) -> None:
    """Whether it was accepted already or not: in the end it is `cancelled`."""
    task_id, started = str(uuid.uuid4()), asyncio.Event()
    await client.bus.subscribe(subjects.output("default", task_id), lambda _: started.set())
    running = asyncio.create_task(
        client.run(shell="sleep 60", task_id=task_id, cancel_with_caller=True)
    )
    if after_start:
        async with asyncio.timeout(20):
            await started.wait()
    else:
        await asyncio.sleep(0)  # it has begun, and has heard nothing yet

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    result = await client.read_result(task_id)

    assert running.cancelled()
    assert result is not None
    assert result.status == "cancelled"


async def test_a_large_file_is_written_in_one_task_and_read_in_pieces(client: Client) -> None:
    """What is larger than one `read` is put together again."""
    async with await client.create_session() as session:
        await session.exec("head -c 300000 /dev/urandom > big; sha256sum big > sum")
        data = await session.read("big")
        await session.write("copy", data[:150_000])
        check = await session.exec("head -c 150000 big | cmp - copy && cat big > /dev/null")

    assert len(data) == 300_000
    assert check.ok


async def test_file_operations_raise_what_went_wrong(client: Client) -> None:
    """A missing file is an exception that carries the result."""
    async with await client.create_session() as session:
        with pytest.raises(TaskFailed) as failed:
            await session.read("missing.txt")

    assert failed.value.result.reason == "file"


async def test_a_mistake_of_the_caller_is_refused_before_anything_is_published(
    client: Client, tmp_path: Path
) -> None:
    """Limits are checked here, with the name of the field."""
    with pytest.raises(InvalidMessage, match="exactly one of argv, shell and code"):
        await client.run(["true"], shell="true")
    with pytest.raises(InvalidMessage, match="timeout_s"):
        await client.run(["true"], timeout_s=-1)
    with pytest.raises(InvalidMessage, match="class"):
        await client.run(["true"], klass="recovery")
    with pytest.raises(NotFound, match="no pool 'nowhere'"):
        await client.run(["true"], pool="nowhere")


async def test_closing_a_session_waits_no_longer_than_it_is_told_to(client: Client) -> None:
    """It stands behind the task that runs, and closes when that has ended."""
    session = await client.create_session()
    busy = await session.start(["sleep", "60"])
    with pytest.raises(NoResultYet):
        await session.close(wait_s=0.1)
    await busy.cancel()

    assert (await session.close(wait_s=30)).raw.session == session.id
