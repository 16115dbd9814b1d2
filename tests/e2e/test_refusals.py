"""What is refused at the publish is refused for certain, to everybody: the client, the command line, a bare client."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import nats
import pytest
from tests.e2e.around import around

from agent_sandbox import Client, InvalidMessage, LimitExceeded, NotFound
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.running import RunningTask
from shared import limits, subjects
from shared.bus import Bus
from shared.ids import SHARDS
from shared.testing.look import until

Cli = Callable[..., Any]
POOL = "narrow"
"""Of one sandbox only: what comes after the first task waits in its lane."""
BOUND = "max_msgs_per_subject"


@pytest.fixture
async def short_lanes(truth: Bus) -> AsyncIterator[None]:
    """Lanes that hold one message in each shard, in place of LANE_MESSAGES_MAX."""
    streams = [subjects.queue_stream(shard) for shard in range(SHARDS)]
    configs = [(await truth.js_api(f"STREAM.INFO.{name}"))["config"] for name in streams]
    assert {config[BOUND] for config in configs} == {limits.LANE_MESSAGES_MAX}
    try:
        for config in configs:
            await truth.js_api(f"STREAM.UPDATE.{config['name']}", config | {BOUND: 1})
        yield
    finally:
        for config in configs:
            await truth.js_api(f"STREAM.UPDATE.{config['name']}", config)


async def fill(client: Client) -> list[RunningTask]:
    """Publish until each shard of a lane has what it holds; the servers draw the shard. Return what was accepted."""
    accepted: list[RunningTask] = []
    for _ in range(200):
        with suppress(LimitExceeded):
            accepted.append(await client.start(["true"], pool=POOL))
        if len(accepted) == SHARDS:
            return accepted
    raise AssertionError(f"{len(accepted)} accepted, of {SHARDS} shards")


@pytest.mark.usefixtures("short_lanes")
async def test_a_full_lane_refuses_for_certain_and_takes_again_when_there_is_room(
    client: Client, cli: Cli
) -> None:
    """By name in the client and in the command line; what was accepted before runs, and so does what comes after."""
    async with AsyncExitStack() as ending:
        holder = await client.start(shell="sleep 60", pool=POOL)
        ending.push_async_callback(client.cancel, holder.task_id)
        await until(
            lambda: holder.has_started, within_s=20, seen=lambda: around(client, POOL, [holder])
        )

        accepted = await fill(client)
        task_id = str(uuid.uuid4())
        with pytest.raises(LimitExceeded) as refused:
            await client.start(["true"], pool=POOL, task_id=task_id)
        said = cli("run", "--pool", POOL, "--json", "--", "true")
        shown = cli("run", "--pool", POOL, "--", "true")

    assert refused.value.definite
    assert f"task.default.{POOL}.interactive" in str(refused.value)
    assert "maximum messages per subject exceeded" in str(refused.value)
    assert said.returncode == shown.returncode == 125
    told = json.loads(said.stdout)["error"]
    assert (told["code"], told["definite"]) == ("limit_exceeded", True)
    assert "maximum messages per subject exceeded" in shown.stderr
    assert [(await task.result(wait_s=30)).status for task in accepted] == ["ok"] * SHARDS
    assert (await client.run(["true"], pool=POOL, task_id=task_id)).ok


async def test_a_body_over_the_limit_of_a_bare_client_is_refused_for_certain(
    embedded: Folder, client: Client
) -> None:
    """By the stream, in place of the PubAck; the id is free, and its connection is good as before."""
    bare: Any = await nats.connect(
        list(embedded.read().servers),
        user_credentials=str(embedded.client_credential),
        inbox_prefix=b"_INBOX_c-default",
    )
    task = str(uuid.uuid4())
    lane = subjects.task("default", "default", "interactive")
    headers = {"Nats-Msg-Id": task}
    refused = await bare.request(
        lane, bytes(limits.BODY_BYTES_MAX + 64 * 1024), headers=headers, timeout=5
    )
    accepted = await bare.request(lane, b'{"kind": "open"}', headers=headers, timeout=5)
    await bare.close()

    error = json.loads(refused.data)["error"]
    assert (error["code"], error["description"]) == (400, "message size exceeds maximum allowed")
    assert json.loads(accepted.data)["seq"] > 0
    result = await until(lambda: client.read_result(task), within_s=15)
    assert result.status == "ok"


async def object_bytes(truth: Bus) -> int:
    """Return how much the object store holds."""
    infos = [await truth.js_api(f"STREAM.INFO.O{shard}") for shard in range(SHARDS)]
    return sum(info["state"]["bytes"] for info in infos)


async def test_what_a_refused_task_would_have_read_does_not_stay_in_the_object_store(
    client: Client, truth: Bus
) -> None:
    """Else a tenant who tries again and again pushes its own older objects out."""
    files = {"a": bytes(300_000), "b": bytes(400_000)}
    before = await object_bytes(truth)

    with pytest.raises(NotFound):
        await client.start(["true"], files=files, pool="nowhere")
    with pytest.raises(InvalidMessage):
        await client.start(["true"], shell="two things at once", files=files)
    with pytest.raises(InvalidMessage):
        await client.create_session(files=files, task_id="no id")
    async with await client.create_session() as session:
        with pytest.raises(InvalidMessage):
            await session.start(["true"], files=files, klass="no class")
        with pytest.raises(InvalidMessage):
            await session.start_python("1", files=files, timeout_s=-1)
        with pytest.raises(InvalidMessage):
            await session.write("/no/such/../path", bytes(300_000), task_id="no id")
        with pytest.raises(InvalidMessage):
            await session.upload(bytes(300_000), "a", task_id="no id")

    assert await object_bytes(truth) <= before
