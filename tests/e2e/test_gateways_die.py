"""Gateways that are killed or stopped: what was accepted goes on, and the other one knows all of it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import ProcessId, wait_gone
from agent_sandbox.embedded.table import read_table
from shared.testing.look import until


def process_of(folder: Folder, name: str) -> ProcessId | None:
    """Return a process of the cluster, if it runs now."""
    table = read_table(folder)
    assert table is not None
    found = next(row.process for row in table.rows if row.name == name)
    return found if found is not None and found.is_alive() else None


@asynccontextmanager
async def asking(folder: Folder, number: int) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of one of the gateways."""
    token = await asyncio.to_thread(folder.token_file.read_text)
    async with httpx.AsyncClient(
        base_url=folder.read().gateways[number - 1],
        headers={"authorization": f"Bearer {token.strip()}"},
        timeout=30.0,
    ) as client:
        yield client


async def is_back(folder: Folder, number: int, former: ProcessId) -> None:
    """Wait until the supervisor has started a gateway again, and it answers."""
    name = f"gateway-{number}"

    def is_ready() -> bool:
        now = process_of(folder, name)
        return now is not None and now != former and (folder.ready / name).exists()

    await until(is_ready, within_s=30)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_a_gateway_that_ends_loses_nothing_and_comes_back(
    embedded: Folder, number: signal.Signals
) -> None:
    """A call that waits for its result is cut off; the same key at the other gateway gets the one result there is."""
    former = process_of(embedded, "gateway-1")
    assert former is not None
    key = {"idempotency-key": f"survivor-{number.name}"}
    async with asking(embedded, 1) as first, asking(embedded, 2) as second:
        created = await first.post("/v1/sessions")
        session = created.json()["session"]
        tasks = f"/v1/sessions/{session}/tasks"
        task = {"kind": "command", "shell": "sleep 2; echo run >> log; wc -l < log"}
        waiting = asyncio.create_task(
            first.post(tasks, params={"wait_s": 50}, json=task, headers=key)
        )

        async def runs() -> bool:
            page = await second.get(tasks, params={"state": "running"})
            return bool(page.json().get("tasks"))

        await until(runs, within_s=20)
        former.send(number)
        assert wait_gone([former], 15.0) == []
        answers = await asyncio.gather(waiting, return_exceptions=True)
        assert isinstance(answers[0], httpx.HTTPError) or answers[0].status_code in (200, 202, 503)
        ran = await second.post(tasks, params={"wait_s": 50}, json=task, headers=key)
        assert ran.status_code == 200, ran.text
        assert ran.json()["result"]["stdout"]["text"].strip() == "1", "it ran once"
        await is_back(embedded, 1, former)
        again = await first.get(ran.json()["links"]["self"])
        assert again.json()["result"] == ran.json()["result"]


def test_status_says_where_the_gateways_are(embedded: Folder, cli: Callable[..., object]) -> None:
    """People look for the address; the token stands in the folder, for its owner alone."""
    shown = cli("status")
    for address in embedded.read().gateways:
        assert address in shown.stdout  # type: ignore[attr-defined]  # a finished process
    assert embedded.token_file.stat().st_mode & 0o777 == 0o600
    assert embedded.tenants_file.stat().st_mode & 0o777 == 0o600


async def test_a_body_without_an_end_is_refused(embedded: Folder) -> None:
    """In chunks it does not say its size; it is refused when it is too large, and no byte of it is kept."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b" " * 65_536

    async with asking(embedded, 2) as second:
        answer = await second.post(
            "/v1/tasks", content=endless(), headers={"content-type": "application/json"}
        )
        assert (answer.status_code, answer.json()["field"]) == (413, "body")
