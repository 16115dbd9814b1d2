"""One task is one trace, from the caller to the result, over the death of its worker; received as any backend would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.e2e.traced import (
    CAME,
    PARTS,
    POOLS,
    PROCESS,
    PUBLISH,
    RESOURCE,
    SPAN,
    TASK,
    TOKEN,
    TRACE,
    attempt_of,
    check_attempt,
    check_tree,
    kill_worker,
    named,
    spans_of,
    variables,
    worker_of,
)

from agent_sandbox import Client, ClientOptions
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.events import Started
from agent_sandbox.places import TENANT
from shared import subjects
from shared.bus import Bus, BusOptions
from shared.identity import read_credential
from shared.task import Command, encode_task
from shared.testing.look import until
from shared.testing.otlp import Received, Receiver, receive
from shared.workspace import MARK

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """What takes the spans."""
    with receive() as listening:
        yield listening


@pytest.fixture(scope="module")
def traced(place: Path, receiver: Receiver) -> Iterator[Folder]:
    """A cluster of this module's own, told by the standard variables to export its spans."""
    from tests.e2e.conftest import run_cli  # noqa: PLC0415 - the one in a module fixture

    folder, pools = Folder(place / "traced"), place / "traced.toml"
    pools.write_text(POOLS)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables(receiver).items():
            patch.setenv(name, value)
        up = run_cli("up", "--pools", str(pools), "--nodes", "1", "--wait", "45", state=folder.path)
        assert up.returncode == 0, up.stderr
    yield folder
    run_cli("down", state=folder.path)


@pytest.fixture
async def client(traced: Folder) -> AsyncIterator[Client]:
    """A client that says nothing of traces."""
    async with Client(ClientOptions(state=traced.path)) as connected:
        yield connected


@pytest.fixture
async def plain_bus(traced: Folder) -> AsyncIterator[Bus]:
    """A publisher in any language: a plain connection."""
    options = BusOptions(
        servers=traced.read().servers,
        name="plain",
        credential=read_credential(traced.client_credential),
    )
    bus = await Bus.connect(options)
    yield bus
    await bus.close()


async def test_the_command_line_begins_a_trace_that_goes_on_to_the_result(
    traced: Folder, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, cli_on: Cli
) -> None:
    """Publish, queue, fetch, claim, restore, run, commit: one tree, with names and attributes by the conventions."""
    for name, value in variables(receiver).items():
        monkeypatch.setenv(name, value)
    ran = await asyncio.to_thread(
        cli_on, "run", "--json", "--", "sh", "-c", "exit 3", state=traced.path
    )
    task = json.loads(ran.stdout)["task"]
    spans = await spans_of(receiver, task, "run task", PUBLISH)
    call, publish = named(spans, "run task"), named(spans, PUBLISH)
    process = named(spans, PROCESS)

    assert ran.returncode == 3
    check_tree(spans)
    check_attempt(spans, process)
    assert (call.parent, call.service) == ("", "agent-sandbox-cli")
    assert call.end_ns > process.start_ns  # it lasts until its caller has the result
    assert call.attributes["agent_sandbox.status"] == "exit_code"
    assert (publish.parent, publish.kind) == (call.id, "producer")
    assert [named(spans, name).parent for name in CAME] == [publish.id] * 2
    assert (process.parent, process.kind) == (publish.id, "consumer")
    assert process.links == ((publish.trace, publish.id, "creation"),)
    assert process.failed
    assert attempt_of(task).items() <= process.attributes.items()
    fetch = named(spans, CAME[1])
    assert fetch.kind == "client"
    assert fetch.attributes["messaging.operation.type"] == "receive"
    assert fetch.attributes["messaging.destination.subscription.name"] == "default-interactive"
    assert fetch.attributes["messaging.message.id"] == task
    assert named(spans, PARTS[1]).attributes["messaging.operation.type"] == "settle"
    assert named(spans, "execute task").attributes["process.exit.code"] == 3
    assert process.resource.items() >= RESOURCE.items()
    assert process.resource["service.instance.id"] == process.attributes["messaging.client.id"]


async def test_a_worker_that_is_killed_leaves_its_attempt_in_the_trace(
    traced: Folder, receiver: Receiver, client: Client
) -> None:
    """The second attempt is in the same trace and links to the first, of which a pool-manager tells; so does the recovery."""
    task = await client.start(["sh", "-c", "sleep 1; echo done"])
    async for event in task.events():
        if isinstance(event, Started) and event.attempt == 1:
            kill_worker(traced, event.worker)
    result = await task.result()
    spans = await spans_of(receiver, task.task_id, "recover session", TOKEN, CAME[1], attempts=2)
    lost, process = [span for span in spans if span.name == PROCESS]
    recover = named(spans, "recover session")
    wait = named(spans, "wait in queue")

    assert result.status == "ok"
    check_tree(spans)
    check_attempt(spans, process)
    assert wait.parent == ""  # the publisher said nothing: the trace begins with the acceptance
    assert {span.parent for span in (lost, process, recover)} == {wait.id}
    assert (lost.service, lost.failed, lost.attributes["error.type"]) == (
        "pool-manager",
        True,
        "worker_lost",
    )
    assert recover.service == "pool-manager"
    assert recover.links == ((lost.trace, lost.id, "lost_attempt"),)
    assert recover.attributes["agent_sandbox.recovery.cause"] == result.raw.interruptions[0].cause
    # What the first worker told before it was killed hangs under the attempt that another told of.
    assert {span.name for span in spans if span.parent == lost.id} == set(PARTS[:4])
    token = named(spans, TOKEN)
    assert token.parent == recover.id
    first, second = [span for span in spans if span.name == CAME[1]]
    assert (first.parent, second.parent) == (wait.id, token.id)
    assert {why: span for _, span, why in process.links} == {
        "creation": wait.id,
        "previous_attempt": lost.id,
        "token": token.id,
    }
    assert (lost.attributes["agent_sandbox.epoch"], process.attributes["agent_sandbox.epoch"]) == (
        1,
        3,
    )
    assert (
        lost.attributes["agent_sandbox.attempt"],
        process.attributes["agent_sandbox.attempt"],
    ) == (1, 2)


async def test_the_rescue_of_a_dead_workers_files_is_in_the_trace(
    traced: Folder, receiver: Receiver, client: Client
) -> None:
    """It is a part of the recovery, and so is the token that asks for the next worker once the files are there."""
    task = await client.start(
        ["sh", "-c", "echo 1 >> f; [ $(wc -l < f) = 2 ] || sleep 30"], on_interrupt="resume"
    )
    worker = await worker_of(task)
    place = traced.nodes / "node-1" / "pods" / worker
    await until(lambda: (place / MARK).exists() and (place / "workspace" / "f").exists())
    kill_worker(traced, worker)
    result = await task.result(wait_s=30)
    also = ("recover session", "rescue snapshot", "hand session on", "restore snapshot", TOKEN)
    spans = await spans_of(receiver, task.task_id, *also, attempts=2)
    recover, rescue = named(spans, "recover session"), named(spans, "rescue snapshot")
    on, token = named(spans, "hand session on"), named(spans, TOKEN)

    assert result.check().raw.recovery is not None
    check_tree(spans)
    assert (rescue.service, rescue.parent, rescue.failed) == ("checkpointer", recover.id, False)
    assert rescue.attributes["agent_sandbox.snapshot.entries"] >= 1
    assert (on.parent, token.parent) == (recover.id, on.id)
    assert [span.parent for span in spans if span.name == CAME[1]][1:] == [token.id]


async def test_a_sleeping_session_is_woken_within_the_trace_of_its_next_task(
    receiver: Receiver, client: Client
) -> None:
    """Two tasks of one session are two traces; the second one's shows who woke the session."""
    session = await client.create_session()
    await session.write("f", "kept")
    await until(lambda: _is_idle(client, session.id), within_s=20)
    result = await session.exec(["true"])
    task = result.task_id
    spans = await spans_of(receiver, task, "wake session", TOKEN)
    opened = await spans_of(receiver, session.id)
    wake, wait = named(spans, "wake session"), named(spans, "wait in queue")
    process = named(spans, "process session.{tenant}.{session}.{task}")

    assert spans[0].trace != opened[0].trace
    check_tree(spans)
    check_attempt(spans, process, "save workspace")
    assert (wake.service, wake.parent) == ("pool-manager", wait.id)
    assert named(spans, "restore workspace").attributes["agent_sandbox.workspace"] == "restored"
    await session.close()


async def _is_idle(client: Client, session: str) -> bool:
    shown = await client.session(session).show()
    return shown.record is not None and shown.record.state == "idle"


async def test_a_request_to_the_gateway_goes_on_with_its_callers_trace(
    traced: Folder, receiver: Receiver
) -> None:
    """Its span is the parent of the publish; the caller's own is at the root, wherever that is exported to."""
    token = traced.token_file.read_text().strip()
    caller = f"00-{TRACE}-{SPAN}-01"
    async with httpx.AsyncClient(base_url=traced.read().gateways[0]) as http:
        answer = await http.post(
            "/v1/tasks",
            json={"kind": "command", "argv": ["true"]},
            headers={
                "authorization": f"Bearer {token}",
                "traceparent": caller,
                "tracestate": "a=1",
            },
        )
    task = answer.json()["task"]
    spans = await spans_of(receiver, task, "POST /v1/tasks", "run task", PUBLISH)
    served, call = named(spans, "POST /v1/tasks"), named(spans, "run task")

    assert answer.status_code in (201, 202)
    check_tree(spans, root=SPAN)
    assert (served.parent, served.service) == (SPAN, "gateway")
    assert served.attributes["http.response.status_code"] == answer.status_code
    assert (call.parent, named(spans, PUBLISH).parent) == (served.id, call.id)
    assert {span.state for span in spans} == {"a=1"}


async def test_what_a_publisher_does_not_want_kept_is_not_kept(
    receiver: Receiver, client: Client, plain_bus: Bus
) -> None:
    """Nor does a header full of rubbish hurt the task that carries it: it gets a trace of its own."""
    unwanted, rubbish, huge = (str(uuid4()) for _ in range(3))
    headers = {
        unwanted: {"traceparent": f"00-{uuid4().hex}-{SPAN}-00"},
        rubbish: {"traceparent": "00-zz-\x07", "tracestate": "\xff" * 40},
        huge: {"traceparent": "0" * 3000, "tracestate": "a=" + "b" * 3000},
    }
    for task, fields in headers.items():
        await plain_bus.publish_acked(
            subjects.task(TENANT, "default", "interactive"),
            encode_task(Command(argv=("true",))),
            message_id=task,
            headers=fields,
        )
    for task in headers:
        await until(lambda task=task: client.read_result(task), within_s=20)
    for task in (rubbish, huge):
        assert named(await spans_of(receiver, task), "wait in queue").parent == ""
    assert unwanted not in {
        span.attributes.get("agent_sandbox.task.id") for span in receiver.spans()
    }


async def test_a_task_that_is_cancelled_while_it_waits_has_its_end_in_the_trace(
    receiver: Receiver, client: Client
) -> None:
    """No worker ever had it; a pool-manager tells of its wait and its end."""
    busy = await client.start(["sleep", "20"], pool="one")
    await busy.started(wait_s=20)
    waiting = await client.start(["true"], pool="one")
    await waiting.cancel()
    await busy.cancel()

    def ends() -> list[Received]:
        return [one for one in receiver.spans() if one.attributes.get(TASK) == waiting.task_id]

    await until(lambda: len(ends()) > 1, within_s=20)
    end, wait = named(ends(), "end task"), named(ends(), "wait in queue")
    assert (end.service, end.parent, wait.parent) == ("pool-manager", wait.id, "")
    assert (end.attributes["error.type"], end.failed) == ("requested", True)
