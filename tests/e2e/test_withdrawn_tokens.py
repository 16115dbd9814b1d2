"""Tokens that are taken out of a gateway's tenants' file while somebody uses them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from tests.e2e.door import MINE, OTHERS, STREAM, Door

from agent_sandbox import Client, ClientOptions
from agent_sandbox.embedded.folder import Folder
from gateway import app
from shared.errors import Forbidden
from shared.testing.look import until

KEPT, GONE, THEIRS = "a-token-that-stays", "a-token-that-goes", "a-token-of-others"
LONG = {"kind": "command", "shell": "echo begun; sleep 25"}
SOON_S = 10.0


@pytest.fixture
async def door(
    embedded: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Door]:
    """A gateway that lets two tokens of one tenant in, and looks into its file often."""
    monkeypatch.setattr(app, "FOLLOW_S", 0.05)
    made = await asyncio.to_thread(Door, embedded, tmp_path)
    made.admit({MINE: [KEPT, GONE]})
    async with made.opened():
        yield made


async def text_of(said: httpx.Response, begun: asyncio.Event) -> str:
    """Read a stream to its end; `begun` is set when the program has written something."""
    text = ""
    async for piece in said.aiter_text():
        text += piece
        if "begun" in text:
            begun.set()
    return text


async def test_streams_end_with_the_token_that_opened_them(door: Door) -> None:
    """Server-sent events, the answer to a create, and a WebSocket; those of another token of the tenant go on."""
    begun = [asyncio.Event() for _ in range(3)]
    async with door.http(KEPT) as kept, door.http(GONE) as gone:
        task = (await kept.post("/v1/tasks", json=LONG)).json()["task"]
        path = f"/v1/tasks/{task}"
        async with (
            kept.stream("GET", f"{path}/output") as stays,
            gone.stream("GET", f"{path}/output") as goes,
            gone.stream("POST", "/v1/tasks", json=LONG, headers=STREAM) as created,
            door.socket(f"{path}/stream", GONE) as socket,
        ):
            reading = [
                asyncio.create_task(text_of(said, event))
                for said, event in zip((stays, goes, created), begun, strict=True)
            ]
            async with asyncio.timeout(SOON_S):
                await asyncio.gather(*(event.wait() for event in begun))
                await socket.recv()
            door.admit({MINE: [KEPT]})
            async with asyncio.timeout(SOON_S):
                texts = await asyncio.gather(*reading[1:])
                await socket.wait_closed()
            assert all(text.endswith(": the token was withdrawn\n\n") for text in texts)
            assert (socket.close_code, socket.close_reason) == (1008, "the token was withdrawn")
            assert (await gone.get(path)).status_code == 401
            other = created.headers["content-location"].partition("?")[0].removesuffix("/output")
            await asyncio.gather(*(kept.post(f"{one}/cancel") for one in (path, other)))
            assert "event: result" in await reading[0], "it went on to its last event"


async def test_a_body_that_is_under_way_is_not_taken_to_its_end(door: Door) -> None:
    """It may take hours; nothing of it is kept."""
    sent, is_refused = 0, False

    async def slowly() -> AsyncIterator[bytes]:
        nonlocal sent
        while not is_refused:
            yield bytes(64 * 1024)
            sent += 1
            await asyncio.sleep(0.02)
        yield b"the end"

    async with door.http(KEPT) as kept, door.http(GONE) as gone:
        session = (await kept.post("/v1/sessions")).json()["session"]
        path = f"/v1/sessions/{session}/files/endless"
        putting = asyncio.create_task(gone.put(path, content=slowly()))
        async with asyncio.timeout(SOON_S):
            await until(lambda: sent >= 10)
            door.admit({MINE: [KEPT]})
            while not is_refused:
                is_refused = (await gone.get("/v1/pools")).status_code == 401
            answer = await putting
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
        await kept.delete(f"/v1/sessions/{session}")


async def test_who_waits_by_the_client_is_told_that_the_token_is_refused(door: Door) -> None:
    """Rather than waiting for a day: the stream broke off, and no gateway opens another."""
    options = ClientOptions(servers=(door.url,), token=GONE)
    async with door.http(KEPT) as kept, Client(options) as client:
        task = await client.start("sleep 25")
        assert await task.started(wait_s=SOON_S)
        door.admit({MINE: [KEPT]})
        with pytest.raises(Forbidden, match="no such token"):
            async with asyncio.timeout(SOON_S):
                await task.result()
        await kept.post(f"/v1/tasks/{task.task_id}/cancel")


async def test_a_tenant_that_is_gone_loses_its_streams_and_another_keeps_them(door: Door) -> None:
    """Its connection goes as well; a file that is gone as a whole shuts nobody out."""
    door.admit({MINE: [KEPT], OTHERS: [THEIRS]})
    begun = asyncio.Event()
    async with door.http(KEPT) as kept, door.http(THEIRS) as theirs:

        async def gets_in() -> bool:
            return (await theirs.get("/v1/pools")).status_code == 200

        await until(gets_in, within_s=SOON_S)
        async with theirs.stream("POST", "/v1/tasks", json=LONG, headers=STREAM) as created:
            reading = asyncio.create_task(text_of(created, begun))
            async with asyncio.timeout(SOON_S):
                await begun.wait()
            door.file.rename(door.file.with_suffix(".away"))
            await asyncio.sleep(0.3)
            assert not reading.done()
            assert (await theirs.get("/v1/pools")).status_code == 200
            door.admit({MINE: [KEPT]})
            async with asyncio.timeout(SOON_S):
                assert (await reading).endswith(": the token was withdrawn\n\n")
        assert (await theirs.get("/v1/pools")).status_code == 401
        assert (await kept.get("/v1/pools")).status_code == 200
        door.admit({MINE: [KEPT], OTHERS: [THEIRS]})
        await until(gets_in, within_s=SOON_S)
        other = created.headers["content-location"].partition("?")[0].removesuffix("/output")
        await theirs.post(f"{other}/cancel")
