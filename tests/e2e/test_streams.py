"""A task's events over HTTP: as they come, from any position, on any gateway."""

from __future__ import annotations

import asyncio
import uuid

import msgspec
import pytest
from tests.e2e.streamed import Site, collect, shown
from websockets.exceptions import InvalidStatus

from agent_sandbox import Client, ClientOptions
from agent_sandbox.embedded.folder import Folder
from gateway.adapters.http.streams import Asked, open_events
from gateway.adapters.measuring import Meter
from shared.rest import StreamEvent

LINES = 20
COUNT = f"for i in $(seq {LINES}); do echo $i; sleep 0.05; done; echo err >&2"


@pytest.fixture
async def site(embedded: Folder) -> Site:
    """The gateways of the shared cluster."""
    return await asyncio.to_thread(Site, embedded)


NUMBERS = b"".join(b"%d\n" % n for n in range(1, LINES + 1))


async def test_a_tasks_events_come_as_it_runs_and_its_result_is_the_last(site: Site) -> None:
    """Over both ways the same."""
    task = await site.start(COUNT)
    over_sse = asyncio.create_task(collect(site.events(task)))
    async with site.socket(task) as socket:
        over_ws = [msgspec.json.decode(said, type=StreamEvent) async for said in socket]
    events = await over_sse

    assert [event.event for event in events] == [
        "started",
        *["output"] * (len(events) - 2),
        "result",
    ]
    assert shown(events) == NUMBERS
    assert shown(events, "stderr") == b"err\n"
    assert events[-1].result is not None
    assert events[-1].result.status == "ok"
    assert over_ws == events
    assert socket.close_code == 1000


async def test_a_reader_goes_on_behind_any_event_on_any_gateway(site: Site) -> None:
    """Also when the task has ended long since, and behind the last one there is nothing."""
    task = await site.start(COUNT)
    events = await collect(site.events(task))
    for at in (0, 1, len(events) // 2, len(events) - 2):
        rest = await collect(site.events(task, gateway=1, after=events[at].id))
        assert rest == events[at + 1 :]
    async with site.http(1) as http:
        params = {"after": events[-1].id}
        over = await http.get(f"/v1/tasks/{task}/output", params=params)
    assert over.status_code == 204, "so that an EventSource does not come back"
    async with site.socket(task, query=f"?after={events[3].id}") as socket:
        assert [msgspec.json.decode(s, type=StreamEvent) async for s in socket] == events[4:]


async def test_what_is_no_position_of_this_task_is_refused(site: Site) -> None:
    """Rubbish, another task's, and one that this task has not come to yet: 400, and the field's name."""
    task, other = await asyncio.gather(site.start("echo a"), site.start("echo b"))
    events, others = await asyncio.gather(collect(site.events(task)), collect(site.events(other)))
    mark = events[0].id.rpartition(".")[2]
    wrong = ["rubbish", "%00", others[0].id, f"9999.1.1.0.0.{mark}", f"1.1.9.700.0.{mark}"]
    async with site.http() as http:
        for after in wrong:
            answer = await http.get(f"/v1/tasks/{task}/output?after={after}")
            assert (answer.status_code, answer.json()["field"]) == (400, "after"), after
    with pytest.raises(InvalidStatus) as refused:
        async with site.socket(task, query="?after=rubbish"):
            pass
    assert refused.value.response.status_code == 400


async def test_a_task_that_nobody_knows_has_no_stream(site: Site) -> None:
    """Rather than one that never says anything; not with another tenant's token either."""
    async with site.http() as http:
        answer = await http.get(f"/v1/tasks/{uuid.uuid4()}/output")
        assert answer.status_code == 404
        bare = await http.get(
            f"/v1/tasks/{uuid.uuid4()}/output", headers={"authorization": "Bearer x"}
        )
        assert bare.status_code == 401


async def test_bytes_that_are_no_text_arrive_as_they_were(site: Site) -> None:
    """As base64, where a piece is no UTF-8."""
    task = await site.start(r"printf '\377\000\376'; sleep 0.1; echo text")
    events = await collect(site.events(task))

    assert shown(events) == b"\xff\x00\xfetext\n"


async def test_a_page_names_its_token_as_a_subprotocol(site: Site) -> None:
    """Browsers can set no header on a WebSocket; the token is not repeated to them."""
    task = await site.start("echo hi")
    token = site.headers["authorization"].removeprefix("Bearer ")
    async with site.socket(
        task, additional_headers={}, subprotocols=["agent-sandbox", f"bearer.{token}"]
    ) as socket:
        assert socket.subprotocol == "agent-sandbox"
        said = [msgspec.json.decode(one, type=StreamEvent) async for one in socket]
    assert shown(said) == b"hi\n"


async def test_a_stream_that_was_opened_and_never_read_leaves_nothing_behind(
    options: ClientOptions,
) -> None:
    """Its reader was gone before the first event: no subscription goes on."""
    async with Client(options) as client, await client.start("sleep 1") as running:
        asked = Asked(
            session=running.session_id, task=running.task_id, after=None, accepted_ms=2**53 - 1
        )
        before = set(client.bus._subscriptions)
        async with open_events(client, Meter("gateway-test"), asked):
            assert client.bus._subscriptions > before
        assert client.bus._subscriptions == before


async def test_a_socket_says_whether_the_last_event_was_sent(site: Site) -> None:
    """1000 means the end; one that says what can't be typed is cut, and may come back."""
    body = {"kind": "command", "shell": "sleep 30", "tty": {}}
    async with site.http() as http:
        made = await http.post("/v1/tasks", json=body)
        assert made.status_code == 201, made.text
        task = made.json()["task"]
        async with site.socket(task) as socket:
            await socket.send('{"rows": "many"}')
            async with asyncio.timeout(15):
                await socket.wait_closed()
        await http.post(f"/v1/tasks/{task}/cancel")
    assert socket.close_code == 1008
