"""What goes wrong is the same on all four ways to the system (`caller`), and so is what is to be done about it."""

from __future__ import annotations

import asyncio
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox import (
    Client,
    Forbidden,
    InvalidMessage,
    NoResultYet,
    NotFound,
    Unavailable,
)
from agent_sandbox.embedded.folder import Folder
from shared import subjects
from shared.messages import Message
from shared.testing.look import until
from shared.views import PoolsAnswer


async def test_a_wait_that_is_over_is_a_timeout_and_the_task_goes_on(caller: Any) -> None:
    """Python's own `TimeoutError`; the result is read later by the task's id."""
    with pytest.raises(TimeoutError) as over:
        await caller.run(shell="sleep 0.5; echo done", wait_s=0.1)
    assert isinstance(over.value, NoResultYet)
    task_id = over.value.task_id

    async def is_there() -> bool:
        return await caller.read_result(task_id) is not None

    await until(is_there, within_s=20)
    assert (await caller.read_result(task_id)).stdout == "done\n"


async def test_the_same_id_runs_once(caller: Any) -> None:
    """However often it is published: the same result. Chosen by the caller, who may have crashed in between."""
    task_id = str(uuid.uuid4())
    first = await caller.run(shell="date +%N", task_id=task_id)
    second = await caller.run(shell="date +%N", task_id=task_id)

    assert first.task_id == second.task_id == task_id
    assert first.raw == second.raw


async def test_errors_have_the_same_kind_and_code_on_every_way(caller: Any) -> None:
    """Whoever catches one catches it wherever the client goes through."""
    nobody = str(uuid.uuid4())
    with pytest.raises(NotFound, match="no-such") as no_pool:
        await caller.run("true", pool="no-such")
    with pytest.raises(InvalidMessage, match="timeout_s"):
        await caller.run("true", timeout_s=-1)
    with pytest.raises(InvalidMessage, match="did you mean 'timeout_s'"):
        await caller.run("true", timeout=1)
    with pytest.raises(InvalidMessage, match="body"):
        await caller.run("x" * 2_000_000)
    with pytest.raises(NotFound):
        await caller.dead_letters.show(2**40)

    assert (no_pool.value.code, no_pool.value.definite) == ("not_found", True)
    assert await caller.read_result(nobody) is None
    assert (await caller.cancel(nobody)).outcome == "unknown"
    assert (await caller.session(nobody).show()).record is None
    assert not await caller.dead_letters.drop(2**40)


async def test_a_cancel_ahead_of_the_publish_kills_it(caller: Any) -> None:
    """It ends as cancelled, and never runs."""
    task_id = str(uuid.uuid4())
    ahead = await caller.cancel(task_id, pool="default")
    late = await caller.run("echo ran", task_id=task_id)

    assert ahead.outcome == "cancelled"
    assert (late.status, late.stdout, late.tti_s) == ("cancelled", "", None)


async def test_a_dead_letter_is_shown_replayed_and_dropped(caller: Any, client: Client) -> None:
    """A body that nobody can read: the same by all ways."""
    task_id = str(uuid.uuid4())
    subject = subjects.task("default", "default", "interactive")
    body = b'{"kind": "command", "argv": []}'
    await client.bus.publish_acked(subject, body, message_id=task_id, deadline_s=10)

    async def find() -> Any:
        page = await caller.dead_letters.list(limit=50)
        found = [row for row in page.letters if row.letter.task == task_id]
        return found[0] if found else None

    await until(find, within_s=20)
    number = (await find()).number
    shown = await caller.dead_letters.show(number)
    with pytest.raises(InvalidMessage, match="argv"):
        await caller.dead_letters.replay(number)

    assert shown.body == body
    assert await caller.dead_letters.drop(number)
    assert not await caller.dead_letters.drop(number)


async def test_pools_are_listed(caller: Any) -> None:
    """With their stock."""
    pools = await caller.ask("pools", Message(), PoolsAnswer)

    assert {"default", "cold", "narrow"} <= {view.pool for view in pools.pools}


async def test_closing_a_client_ends_its_waits_and_leaves_its_tasks(
    way: Any, client: Client
) -> None:
    """Whoever still waits is told which task it is."""
    async with way.make() as caller:
        task = await caller.start(shell="until [ -e go ]; do sleep 0.02; done")
        await task.started(wait_s=20)
        waiting = asyncio.create_task(task.result())
        await asyncio.sleep(0.05)
    with pytest.raises(NoResultYet, match="the client was closed") as ended:
        async with asyncio.timeout(15):
            await waiting

    assert ended.value.task_id == task.task_id
    assert (await client.cancel(task.task_id)).outcome == "cancelled"


async def test_who_may_not_come_in_is_told_so_at_once(
    way: Any, embedded: Folder, tmp_path: Path
) -> None:
    """And who finds nobody, within the time that he gives."""
    if way.is_http:
        stranger = {"token": "nobody's"}
        away = {"servers": ("http://127.0.0.1:9",)}
    else:
        creds = tmp_path / "client.creds"
        creds.write_text((embedded.path / "credentials" / "client.creds").read_text())
        creds.chmod(0o600)
        # The servers themselves do not know what the edges' clients hold.
        stranger = {"servers": embedded.read().direct, "credential": creds}
        away = {"servers": ("nats://127.0.0.1:9",), "credential": creds}
    with pytest.raises(Forbidden):
        await way.make(**stranger).__aenter__()
    with pytest.raises(Unavailable):
        await way.make(**away, connect_s=0.5).__aenter__()


async def test_a_client_is_refused_where_it_can_not_work(caller: Any, way: Any) -> None:
    """In a fork's child: its sockets are the parent's. An async one in another event loop, too."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if way.is_sync:
                caller.wrapped.session("session-1").show()
            else:
                assert caller.transport
        except RuntimeError:
            code = 0
        finally:
            os._exit(code)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    if not way.is_sync:
        with pytest.raises(RuntimeError, match="event loop"):
            await asyncio.to_thread(asyncio.run, caller.run("true"))
