"""Streams of tasks' events as programs without our client read them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

import httpx
import msgspec
from websockets.asyncio.client import connect

from agent_sandbox.embedded.folder import Folder
from shared.rest import StreamEvent

T = TypeVar("T")


class Site:
    """The gateways of a cluster, and its token."""

    def __init__(self, folder: Folder) -> None:
        """Know where they are."""
        self.urls = folder.read().gateways
        self.token = folder.token_file.read_text().strip()
        self.headers = {"authorization": f"Bearer {self.token}"}

    def http(self, gateway: int = 0) -> httpx.AsyncClient:
        """Return a client of one gateway."""
        return httpx.AsyncClient(
            base_url=self.urls[gateway],
            headers=self.headers,
            timeout=20,
            verify=False,  # no TLS on loopback, and reading certificates takes 20 ms each time
        )

    async def start(self, shell: str, gateway: int = 0) -> str:
        """Run a shell line; return its task's id."""
        async with self.http(gateway) as http:
            body = {"kind": "command", "shell": shell}
            made = await http.post("/v1/tasks", json=body, params={"wait_s": 0})
            assert made.status_code in (201, 202), made.text
            return str(made.json()["task"])

    async def events(
        self, task: str, *, gateway: int = 0, after: str = "", **params: Any
    ) -> AsyncIterator[StreamEvent]:
        """Yield a task's events as an `EventSource` does."""
        headers = {"last-event-id": after} if after else {}
        async with (
            self.http(gateway) as http,
            http.stream("GET", f"/v1/tasks/{task}/output", headers=headers, params=params) as said,
        ):
            assert said.status_code == 200, await said.aread()
            async for event in events_of(said):
                yield event

    async def created(
        self, path: str, task: dict[str, Any], *, gateway: int = 0, key: str = ""
    ) -> AsyncIterator[StreamEvent]:
        """Create a task and yield the events that are the answer."""
        headers = {"accept": "text/event-stream"} | ({"idempotency-key": key} if key else {})
        async with (
            self.http(gateway) as http,
            http.stream("POST", path, headers=headers, json=task) as said,
        ):
            assert said.status_code == 200, await said.aread()
            async for event in events_of(said):
                if event.view is not None:
                    assert said.headers["content-location"] == event.view.links["output"]
                yield event

    def socket(self, task: str, *, gateway: int = 0, query: str = "", **more: Any) -> connect:
        """Return a WebSocket to a task's events, not yet open."""
        url = self.urls[gateway].replace("http", "ws", 1)
        fields = {"additional_headers": self.headers, "proxy": None, **more}
        return connect(f"{url}/v1/tasks/{task}/stream{query}", **fields)


async def events_of(said: httpx.Response) -> AsyncIterator[StreamEvent]:
    """Yield the events of an answer."""
    assert said.headers["content-type"].startswith("text/event-stream")
    fields: dict[str, str] = {}
    async for line in said.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            event = msgspec.json.decode(fields["data"], type=StreamEvent)
            assert (fields["id"], fields["event"]) == (event.id, event.event)
            yield event
            fields = {}


def shown(events: list[StreamEvent], stream: str = "stdout") -> bytes:
    """Return a stream's output, after checking that its offsets fit together."""
    data = b""
    for event in events:
        if event.event == "output" and event.stream == stream:
            assert event.offset == len(data)
            data += event.data if event.data is not None else (event.text or "").encode()
    return data


async def collect(events: AsyncIterator[T]) -> list[T]:
    """Return all of them."""
    return [event async for event in events]
