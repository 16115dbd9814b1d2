"""How users write it: this file is checked by mypy, not run (`test_typing`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_type

from agent_sandbox import Client, Event, Output, Result, RunningTask, Session, SyncClient, SyncTask


async def use(client: Client) -> None:
    """The async client."""
    result = await client.run(["true"], timeout_s=1.0, files={"a": b"b"})
    assert_type(result, Result)
    assert_type(result.stdout, str)
    assert_type(result.tti_s, float | None)
    async with await client.create_session(pool="default") as session:
        assert_type(session, Session)
        task = await session.start("true", cwd=".")
        assert_type(task, RunningTask)
        async for event in task.events():
            assert_type(event, Event)
            if isinstance(event, Output):
                assert_type(event.data, bytes)
    await client.run("true", timout_s=1.0)  # type: ignore[call-arg]  # no such option
    await client.run("true", timeout_s="1")  # type: ignore[arg-type]  # no number


def use_sync() -> None:
    """The synchronous one."""
    with SyncClient() as client:
        assert_type(client, SyncClient)
        assert_type(client.run("true", klass="batch"), Result)
        with client.start("true") as task:
            assert_type(task, SyncTask)
            assert_type(task.events(), Iterator[Event])
        client.run("true", pol="default")  # type: ignore[call-arg]  # no such option
