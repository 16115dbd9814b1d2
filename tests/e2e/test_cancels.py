"""Cancels where they come between: while a result is being stored, beside an idle session, by somebody else."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.e2e.around import around

from agent_sandbox import Client, ClientOptions, Forbidden
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.over_nats import NatsTransport
from agent_sandbox.running import RunningTask
from shared import messages, subjects
from shared.bus import Bus
from shared.identity import load_identity, roles, write_credential
from shared.ids import home
from shared.messages import WorkerBeat
from shared.testing.look import Look, until

POOL = "narrow"
"""Of one sandbox, which an idle session gives up after a second."""


@asynccontextmanager
async def full_shard(truth: Bus, session: str) -> AsyncIterator[None]:
    """Let the state shard of a session refuse every write while inside, as a full one does."""
    stream = subjects.state_stream(home(session))
    config = (await truth.js_api(f"STREAM.INFO.{stream}"))["config"]
    await truth.js_api(f"STREAM.UPDATE.{stream}", config | {"max_msg_size": 1})
    try:
        yield
    finally:
        await truth.js_api(f"STREAM.UPDATE.{stream}", config)


async def test_a_cancel_while_the_result_is_stored_tells_what_is_stored(
    client: Client, truth: Bus
) -> None:
    """The program has ended: what finished has finished. The answer comes after the PubAck, not before."""
    states: list[str | None] = []

    def on_beat(message: messages.Message) -> None:
        beat = messages.decode(message.data, WorkerBeat)
        if beat.task == task.task_id:
            states.append(beat.state)

    task = await client.start(shell="sleep 2")
    heard = await truth.subscribe("hb.default.*", on_beat)
    await until(lambda: task.has_started, within_s=20)
    async with full_shard(truth, task.session_id):
        await until(lambda: "saving" in states, within_s=20)
        cancelling = asyncio.create_task(task.cancel(wait_s=30))
        await until(lambda: states.count("saving") > 3, within_s=10)
        assert not cancelling.done()
        assert await client.read_result(task.task_id) is None
    answer = await cancelling
    result = await task.result(wait_s=10)
    await heard.drain()

    assert (answer.outcome, answer.status) == ("finished", "ok")
    assert result.ok


async def test_a_task_of_an_idle_session_is_cancelled_while_nobody_is_free_for_it(
    client: Client, truth: Bus
) -> None:
    """Its result alone is written; the session wakes later, passes it over and does the next one."""
    session = await client.create_session(pool=POOL)
    await Look(truth, "default").in_state(session.id, "idle", within_s=20)
    holder = await client.start(shell="sleep 60", pool=POOL)
    try:
        await until(
            lambda: holder.has_started, within_s=20, seen=lambda: around(client, POOL, [holder])
        )
        task = await session.start(["touch", "done"])

        answer = await task.cancel()

        record = (await session.show()).record
    finally:
        await holder.cancel()
    result = await task.result(wait_s=10)
    async with session:
        seen = (await session.exec(["ls"])).check().stdout

    assert (answer.outcome, result.status, result.reason) == ("cancelled", "cancelled", "requested")
    assert record is not None
    assert (record.state, record.owner) in (("idle", None), ("queued", None))
    assert "done" not in seen


@pytest.fixture
async def stranger(embedded: Folder, client: Client, tmp_path: Path) -> AsyncIterator[Client]:
    """A client of another tenant."""
    signer = load_identity(embedded.servers / "identity.json").client_signer
    path = tmp_path / "stranger.creds"
    write_credential(path, signer.mint("client", roles.publisher("stranger"), by_edge=True))
    servers = client.bus.options.servers
    options = ClientOptions(servers=servers, credential=path, tenant="stranger")
    async with Client(options) as connected:
        yield connected


@pytest.fixture
async def running(client: Client) -> AsyncIterator[RunningTask]:
    """A task of ours that ends by itself when its session has another file."""
    task = await client.start(shell="sleep 3; echo whole")
    await until(lambda: task.has_started, within_s=20)
    yield task
    assert (await task.result(wait_s=20)).check().stdout == "whole\n"


async def test_another_tenant_may_not_ask_for_a_cancel(
    stranger: Client, running: RunningTask
) -> None:
    """The servers refuse the request, and it says so at once and for certain."""
    posing = Client(msgspec.structs.replace(stranger.options, tenant="default"))
    posing._transport = NatsTransport(stranger.bus, "default")

    with pytest.raises(Forbidden) as refused:
        await posing.cancel(running.task_id)

    assert refused.value.definite


async def test_another_tenants_cancel_of_the_same_id_means_its_own(
    stranger: Client, running: RunningTask
) -> None:
    """Under its own name an id of ours is nobody's; a cancel ahead of its own publish kills that one alone."""
    unknown = await stranger.cancel(running.task_id)
    ahead = await stranger.cancel(running.task_id, pool="default")

    assert unknown.outcome == "unknown"
    assert ahead.outcome == "cancelled"
    theirs = await stranger.run(["true"], task_id=running.task_id)
    assert theirs.status == "cancelled"
    assert uuid.UUID(theirs.task_id)
