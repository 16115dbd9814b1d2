"""Time to interactive as a caller is told it: how the task came to its worker, and where the time went."""

from __future__ import annotations

import asyncio
import signal

from agent_sandbox import Client, Tti
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.table import read_table
from shared.bus import Bus
from shared.messages import Message
from shared.task import InputFile, WriteFile
from shared.testing.look import Look, until
from shared.views import PoolsAnswer


def check(tti: Tti | None, tti_s: float | None) -> Tti:
    """Return a caller's time whose parts are known, none of them more than the whole."""
    assert tti is not None
    assert tti_s is not None
    assert tti.tti_ms == round(tti_s * 1000, 3)
    assert tti.measured_by == "caller"
    assert min(tti.queue_wait_ms, tti.claim_ms, tti.start_ms) >= 0
    assert max(tti.claim_ms, tti.start_ms) > 0
    assert tti.queue_wait_ms + tti.claim_ms + tti.start_ms <= tti.tti_ms + 0.002
    return tti


async def warm(client: Client, pool: str, count: int = 1) -> None:
    """Wait until workers of a pool wait, and no pod of it starts."""

    async def waits() -> bool:
        answer = await client.ask("pools", Message(), PoolsAnswer)
        view = next(view for view in answer.pools if view.pool == pool)
        return view.warm >= count and not view.starting

    await until(waits, within_s=30)


async def test_a_pool_with_stock_is_warm_and_one_without_is_on_demand(client: Client) -> None:
    """The same call, the same parts."""
    await warm(client, "default", 4)
    ready = await client.run(["true"])
    made = await client.run(["true"], pool="cold")

    assert check(ready.tti, ready.tti_s).path == "warm"
    assert check(made.tti, made.tti_s).path == "on-demand"
    fields = made.to_json()["tti"]
    assert fields["path"] == "on-demand"
    assert made.raw.timing.path == "on-demand"


async def test_what_comes_beyond_the_stock_had_to_wait_for_a_pod(client: Client) -> None:
    """Though a bell rang for it, and another pod listened when it was taken."""
    await warm(client, "narrow")
    first = await client.start(shell="sleep 0.3", pool="narrow")
    assert await first.started(wait_s=20)
    second, third = await asyncio.gather(
        *(client.start(shell="sleep 0.1", pool="narrow") for _ in range(2))
    )
    taken = [await one.result() for one in (first, second, third)]

    assert [check(one.tti, one.tti_s).path for one in taken] == ["warm", "on-demand", "on-demand"]
    assert all(one.tti and one.tti.queue_wait_ms >= 100 for one in taken[1:])


async def test_a_session_says_how_it_was_opened_used_and_woken(client: Client, truth: Bus) -> None:
    """Opening it runs nothing, in the interpreter; its next task is its own worker's; from idle it takes another one."""
    await warm(client, "narrow")
    session = await client.create_session(pool="narrow")
    assert session.opened is not None
    assert check(session.opened.tti, session.opened.tti_s).path == "warm"
    assert session.opened.raw.timing.started_ms

    used = await session.python("x = 1")
    assert check(used.tti, used.tti_s).path == "bound"
    assert used.tti is not None
    assert used.tti.claim_ms == 0
    assert used.raw.interpreter is not None
    assert used.raw.interpreter.fresh is not None

    await Look(truth, "default").in_state(session.id, "idle")
    await warm(client, "narrow")
    woken = await session.exec(["true"])
    assert check(woken.tti, woken.tti_s).path == "warm"
    await session.close()


async def test_a_task_that_was_run_again_tells_of_its_first_start(
    client: Client, embedded: Folder
) -> None:
    """The user saw it begin then; what came later is recovery."""
    await warm(client, "default", 4)
    task = await client.start(shell="sleep 1.5")
    assert await task.started(wait_s=20)
    first = task.tti
    shown = await client.session(task.session_id).show()
    table = read_table(embedded)
    assert shown.record is not None
    assert table is not None
    worker = await asyncio.to_thread(
        find_worker, embedded, shown.record.owner or "", table.supervisor.pid
    )
    assert worker is not None
    assert worker.send(signal.SIGKILL)
    result = await task.result()

    assert result.raw.attempt == 2
    assert result.tti == first
    assert check(result.tti, result.tti_s).path == "warm"


async def test_what_never_runs_user_code_has_no_time(client: Client) -> None:
    """A file is written; a task ends before a worker comes to it. Whoever waits for the start is told by the result."""
    await warm(client, "narrow")
    written = await client.publish(WriteFile(files=(InputFile(path="a", text="x"),)), {})
    assert await written.started(wait_s=20)
    assert (written.tti, written.has_started) == (None, False)
    result = await written.result()
    assert (result.status, result.tti, result.tti_s) == ("ok", None, None)

    holds = await client.start(shell="sleep 60", pool="narrow")
    assert await holds.started(wait_s=20)
    waits = await client.start(["true"], pool="narrow")
    assert not await waits.started(wait_s=0.2)
    await waits.cancel()
    assert await waits.started(wait_s=20)
    ended = await waits.result()
    assert (ended.status, ended.tti, ended.raw.timing.path) == ("cancelled", None, None)
    await holds.cancel()
    await holds.result()
