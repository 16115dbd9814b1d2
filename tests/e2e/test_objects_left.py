"""Objects that were made in vain: whatever ends what they were for, nothing of them is left in the store."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.door import MINE, Door

from agent_sandbox import Client, ClientOptions, RunningTask
from agent_sandbox.embedded.folder import Folder
from shared import subjects
from shared.bus import Bus
from shared.errors import OutcomeUnknown
from shared.ids import SHARDS
from shared.testing.look import until

MIB = 1 << 20
TOKEN = "token"


class Store:
    """What the object store holds of the tenant, beside what was there before the test."""

    def __init__(self, truth: Bus) -> None:
        """Look through a connection that may do everything."""
        self._truth = truth
        self._before: set[str] = set()

    async def _all(self) -> set[str]:
        return {
            stored.subject
            for shard in range(SHARDS)
            async for stored in self._truth.scan(
                subjects.object_stream(shard), f"object.*.{MINE}.>"
            )
        }

    async def begin(self) -> None:
        """Count from here on."""
        self._before = await self._all()

    async def chunks(self) -> int:
        """Return how many chunks came on top."""
        return len(await self._all() - self._before)

    async def holds(self, least: int) -> None:
        """Wait until so many are there."""

        async def enough() -> bool:
            return await self.chunks() >= least

        await until(enough)

    async def is_empty(self) -> None:
        """Wait until none is."""

        async def none() -> bool:
            return not await self.chunks()

        await until(none)


@pytest.fixture
async def store(truth: Bus) -> Store:
    """The object store of the shared cluster."""
    made = Store(truth)
    await made.begin()
    return made


@pytest.fixture
async def door(embedded: Folder, tmp_path: Path) -> AsyncIterator[Door]:
    """A gateway in this process."""
    made = await asyncio.to_thread(Door, embedded, tmp_path)
    made.admit({MINE: [TOKEN]})
    async with made.opened():
        yield made


@pytest.fixture(params=["nats", "http"])
async def caller(
    request: pytest.FixtureRequest, options: ClientOptions, door: Door
) -> AsyncIterator[Client]:
    """A client, by either way."""
    by_http = ClientOptions(servers=(door.url,), token=TOKEN)
    async with Client(by_http if request.param == "http" else options) as client:
        yield client


async def endless() -> AsyncIterator[bytes]:
    """Yield content without an end."""
    while True:
        yield bytes(64 * 1024)
        await asyncio.sleep(0.005)


async def breaking() -> AsyncIterator[bytes]:
    """Yield some content, and no more."""
    for _ in range(20):
        yield bytes(64 * 1024)
    raise RuntimeError("the source broke")


async def cancelled(work: asyncio.Task[Any]) -> None:
    """Cancel it and wait until it is over."""
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work


async def test_an_upload_that_is_broken_off_leaves_nothing(
    caller: Client, store: Store, tmp_path: Path
) -> None:
    """By its caller, by its source, or on its way to a task that was never published."""
    putting = asyncio.create_task(caller.objects.put(endless()))
    await store.holds(3)
    await cancelled(putting)
    with pytest.raises(RuntimeError, match="broke"):
        await caller.objects.put(breaking())
    second = tmp_path / "second"  # so large that its upload does not end before we have looked
    second.touch()
    os.truncate(second, 256 * MIB)
    files = {"first": bytes(MIB), "second": second}
    starting = asyncio.create_task(caller.start("true", files=files))
    await store.holds(8)
    await cancelled(starting)
    await store.is_empty()


async def test_what_is_no_error_of_ours_leaves_nothing_either(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault between the upload and the publish."""
    monkeypatch.setattr("agent_sandbox.client.program_task", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await client.start("true", files={"large": bytes(MIB)})
    await store.is_empty()


async def test_a_download_that_nobody_waits_for_is_taken_back(caller: Client, store: Store) -> None:
    """While it waits for its turn, or is on its way: it will not be made for nobody."""
    async with await caller.create_session() as session:
        await session.exec("head -c 30000000 /dev/zero > big")
        busy = await session.start("sleep 2")
        getting = asyncio.create_task(session.download("big", io.BytesIO()))
        await asyncio.sleep(0.3)
        await cancelled(getting)
        await busy.result()
        await session.exec("true")  # it would have been before this
        assert await store.chunks() == 0
        on_its_way = asyncio.Event()

        class Sink(io.BytesIO):
            def write(self, data: Any) -> int:
                loop.call_soon_threadsafe(on_its_way.set)
                return super().write(data)

        loop = asyncio.get_running_loop()
        getting = asyncio.create_task(session.download("big", Sink()))
        await on_its_way.wait()
        await cancelled(getting)
        await store.is_empty()


async def test_a_gateways_callers_who_leave_leave_nothing(door: Door, store: Store) -> None:
    """In mid-body, or before they have read what was fetched for them."""
    async with door.http(TOKEN) as http:
        session = (await http.post("/v1/sessions")).json()["session"]
        files = f"/v1/sessions/{session}/files"
        putting = asyncio.create_task(http.put(f"{files}/in", content=endless()))
        await store.holds(3)
        await cancelled(putting)
        await store.is_empty()

        made = {"kind": "command", "shell": "head -c 30000000 /dev/zero > out"}
        await http.post(f"/v1/sessions/{session}/tasks", params={"wait_s": 20}, json=made)
        async with http.stream("GET", f"{files}/out") as said:
            assert said.status_code == 200
            assert await store.chunks()
        await store.is_empty()
        await http.delete(f"/v1/sessions/{session}")


@pytest.fixture
def unanswered(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that lets no answer to a cancel come any more."""

    async def cancel(_self: RunningTask, **_given: Any) -> None:
        raise OutcomeUnknown("no answer")

    return lambda: monkeypatch.setattr(RunningTask, "cancel", cancel)


async def test_what_may_still_be_written_is_kept_for_it(
    door: Door, store: Store, unanswered: Callable[[], None]
) -> None:
    """504: the session may come to it later, and does; then nobody needs the object any more but by its age."""
    content = bytes(range(256)) * 4096
    async with door.http(TOKEN) as http:
        session = (await http.post("/v1/sessions")).json()["session"]
        tasks, file = f"/v1/sessions/{session}/tasks", f"/v1/sessions/{session}/files/late"
        await http.post(tasks, json={"kind": "command", "shell": "sleep 2"})
        unanswered()
        put = await http.put(file, content=content, params={"wait_s": 0.3})
        assert (put.status_code, put.json()["definite"]) == (504, False)
        assert await store.chunks() == 4
        got = await http.get(file)
        assert (got.status_code, got.content == content) == (200, True)
        await http.delete(f"/v1/sessions/{session}")
