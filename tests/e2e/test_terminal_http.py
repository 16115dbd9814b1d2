"""Terminals by way of a gateway: request by request, and over a WebSocket."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.e2e.door import MINE, Door
from tests.e2e.streamed import Site

from agent_sandbox import Client, ClientOptions, keys
from agent_sandbox.embedded.folder import Folder
from shared.rest import StreamEvent

SEE_S = 20.0
TASK = {
    "kind": "command",
    "argv": ["sh", "-i"],
    "env": {"PS1": "> "},
    "tty": {"rows": 20, "cols": 70, "term": "dumb"},
}


@pytest.fixture
async def site(embedded: Folder) -> Site:
    """The gateways of the shared cluster."""
    return await asyncio.to_thread(Site, embedded)


async def see(socket: Any, text: str) -> list[StreamEvent]:
    """Read events until a terminal has shown `text`."""
    events: list[StreamEvent] = []
    async with asyncio.timeout(SEE_S):
        while text not in "".join(event.text or "" for event in events):
            events.append(msgspec.json.decode(await socket.recv(), type=StreamEvent))
    return events


async def test_a_browser_types_over_the_socket_that_shows_the_terminal(site: Site) -> None:
    """Bytes, text, a size, a hang-up; a reader on the other gateway sees the same, and types as well."""
    async with site.http() as http:
        made = await http.post("/v1/tasks", json=TASK)
        task = made.json()["task"]
    async with site.socket(task) as socket, site.socket(task, gateway=1) as other:
        await see(socket, "> ")
        await socket.send(b"stty size\n")
        await see(socket, "20 70\r\n")
        await socket.send(
            msgspec.json.encode({"rows": 40, "cols": 99, "text": "stty size\n"}).decode()
        )
        await see(socket, "40 99\r\n")
        await other.send(b"echo both-$((1+1))\n")
        await see(socket, "both-2\r\n")
        await see(other, "both-2\r\n")
        await socket.send('{"hang_up": true}')
        last = [msgspec.json.decode(said, type=StreamEvent) async for said in socket][-1]

    assert last.result is not None
    assert (last.result.status, last.result.reason) in {
        ("failed", "signal"),
        ("failed", "exit_code"),
    }


async def test_what_no_terminal_understands_ends_the_socket_and_not_the_task(site: Site) -> None:
    """It is no way to harm the program."""
    async with site.http() as http:
        task = (await http.post("/v1/tasks", json=TASK)).json()["task"]
        async with site.socket(task) as socket:
            await see(socket, "> ")
            await socket.send('{"rows": 100000, "cols": 1}')
            async with asyncio.timeout(SEE_S):
                await socket.wait_closed()
            assert socket.close_code == 1008
            assert "rows" in socket.close_reason
        async with site.socket(task) as socket:
            await socket.send(b"exit 3\n")
            last = [msgspec.json.decode(said, type=StreamEvent) async for said in socket][-1]
    assert last.result is not None
    assert last.result.exit_code == 3


async def test_a_shell_works_over_http_as_it_does_on_nats(site: Site) -> None:
    """The same client, with a gateway's address; typed once, however often it is said."""
    options = ClientOptions(servers=site.urls, token=site.token)
    async with Client(options) as client, await client.create_session() as session:
        async with session.shell(["sh", "-i"], env={"PS1": "> "}, term="dumb") as shell:
            seen = b""
            shown = aiter(shell)
            while b"> " not in seen:
                seen += await anext(shown)
            await shell.resize(33, 44)
            await shell.write("stty size; exit 6\n")
            async with asyncio.timeout(SEE_S):
                async for data in shown:
                    seen += data
            assert (await shell.result()).exit_code == 6
        assert b"33 44" in seen
        async with site.http() as http:
            path = f"/v1/sessions/{session.id}/tasks/{shell.task.task_id}/terminal"
            late = await http.post(path, content=b"x", params={"writer": "w"})
            wrong = await http.post(path, params={"rows": 20})
    assert late.status_code == 404, late.text
    assert wrong.status_code == 400, wrong.text


async def test_what_is_typed_before_the_start_waits_for_it(site: Site) -> None:
    """A person types ahead, a page sends its window's size as soon as it is open."""
    async with site.http() as http:
        made = await http.post("/v1/tasks", params={"wait_s": 0, "pool": "cold"}, json=TASK)
        assert made.status_code == 202, made.text
    query = "?" + made.json()["links"]["stream"].partition("?")[2]
    async with site.socket(made.json()["task"], query=query) as socket:
        await socket.send('{"rows": 41, "cols": 98}')
        await socket.send(b"stty size; exit 7\n")
        events = [msgspec.json.decode(said, type=StreamEvent) async for said in socket]
    assert events[0].event == "started", "nothing had run when it was typed"
    assert "41 98\r\n" in "".join(event.text or "" for event in events)
    assert events[-1].result is not None
    assert events[-1].result.exit_code == 7


async def test_what_is_sent_to_a_task_without_a_terminal_goes_nowhere(
    embedded: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends neither the task nor its stream: many a page sends a word now and then, to be heard."""
    monkeypatch.setattr(keys, "NOBODY_S", 0.3)
    door = await asyncio.to_thread(Door, embedded, tmp_path)
    door.admit({MINE: ["token"]})
    async with door.opened(), door.http("token") as http:
        body = {"kind": "command", "shell": "sleep 2; echo done"}
        task = (await http.post("/v1/tasks", json=body)).json()["task"]
        async with door.socket(f"/v1/tasks/{task}/stream", "token") as socket:
            for _ in range(40):
                await socket.send(b"hello")
            events = [msgspec.json.decode(said, type=StreamEvent) async for said in socket]
    assert socket.close_code == 1000
    assert [event.event for event in events] == ["started", "output", "result"]
