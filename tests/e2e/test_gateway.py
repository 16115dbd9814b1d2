"""The gateway on a live cluster: what it promises over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from agent_sandbox.embedded.folder import Folder
from shared.testing.look import until


@pytest.fixture
async def http(embedded: Folder) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the first gateway, with the cluster's token."""
    token = await asyncio.to_thread(embedded.token_file.read_text)
    async with httpx.AsyncClient(
        base_url=embedded.read().gateways[0],
        headers={"authorization": f"Bearer {token.strip()}"},
        timeout=30.0,
    ) as client:
        yield client


async def test_a_one_shot_is_taken_and_its_result_is_shown(http: httpx.AsyncClient) -> None:
    """The first thing that anybody tries."""
    created = await http.post("/v1/tasks", json={"kind": "command", "argv": ["echo", "hello"]})
    assert created.status_code in (201, 202), created.text
    place = created.headers["location"]

    async def has_ended() -> bool:
        seen = await http.get(place)
        return seen.status_code == 200 and seen.json()["state"] == "ended"

    await until(has_ended, within_s=20)
    view = (await http.get(place)).json()
    assert view["result"]["stdout"]["text"] == "hello\n"


async def test_a_request_without_a_token_is_asked_who_it_is(http: httpx.AsyncClient) -> None:
    """Before anything is read of it."""
    answer = await http.post("/v1/tasks", headers={"authorization": ""}, content=b"{}")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["code"] == "unauthorized"
