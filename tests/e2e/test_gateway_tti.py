"""The gateway's word on how soon user code ran: in the answer to each create, later at the link, and over time."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.table import read_table
from shared.testing.look import until

WAITS = {"kind": "command", "shell": "sleep 60"}
TRUE = {"kind": "command", "argv": ["true"]}
NARROW = {"pool": "narrow"}


@pytest.fixture
async def gateways(embedded: Folder) -> AsyncIterator[list[httpx.AsyncClient]]:
    """A client of each gateway."""
    token = await asyncio.to_thread(embedded.token_file.read_text)
    headers = {"authorization": f"Bearer {token.strip()}"}
    opened = [
        httpx.AsyncClient(base_url=url, headers=headers, timeout=40.0)
        for url in embedded.read().gateways
    ]
    yield opened
    for client in opened:
        await client.aclose()


async def warm(gateway: httpx.AsyncClient, pool: str, count: int = 1) -> None:
    """Wait until workers of a pool wait, and no pod of it starts."""

    async def waits() -> bool:
        pools = (await gateway.get("/v1/pools")).json()["pools"]
        view = next(view for view in pools if view["pool"] == pool)
        return view.get("warm", 0) >= count and not view.get("starting")

    await until(waits, within_s=30)


def check(tti: dict[str, Any]) -> dict[str, Any]:
    """Return a time whose parts are all there, and together not more than the whole."""
    parts = [tti[name] for name in ("queue_wait_ms", "claim_ms", "start_ms")]
    assert min(parts) >= 0
    assert 0 < sum(parts) <= tti["tti_ms"] + 0.002
    return tti


async def view_with_tti(gateway: httpx.AsyncClient, link: str) -> dict[str, Any]:
    """Return the view at a link once it has the time."""

    async def has_it() -> dict[str, Any] | None:
        view: dict[str, Any] = (await gateway.get(link)).json()
        return view if "tti" in view else None

    found: dict[str, Any] = await until(has_it, within_s=20)
    check(found["tti"])
    return found


async def end(gateway: httpx.AsyncClient, view: dict[str, Any]) -> None:
    """Cancel a task."""
    assert (await gateway.post(view["links"]["cancel"])).status_code == 200


async def test_a_create_answers_with_the_time_just_measured_for_it(
    gateways: list[httpx.AsyncClient],
) -> None:
    """Warm where a worker waited, on demand where the pool has none; a session that is only opened runs nothing."""
    one, other = gateways
    await warm(one, "default", 4)
    created = await one.post("/v1/tasks", json=TRUE)
    opened = await one.post("/v1/sessions", params={"pool": "cold"})
    assert (created.status_code, opened.status_code) == (201, 201)

    view, session = created.json(), opened.json()
    assert (check(view["tti"])["path"], check(session["tti"])["path"]) == ("warm", "on-demand")
    assert view["tti"]["measured_by"] == "caller"
    assert session["state"] in ("started", "ended")
    assert created.headers["location"] == view["links"]["self"]

    assert (await view_with_tti(one, view["links"]["self"]))["tti"] == view["tti"]
    told = (await view_with_tti(other, view["links"]["self"]))["tti"]
    assert (told["path"], told["measured_by"]) == ("warm", "servers")
    assert (told["claim_ms"], told["start_ms"]) == (
        view["tti"]["claim_ms"],
        view["tti"]["start_ms"],
    )
    await one.delete(f"/v1/sessions/{session['session']}")


async def test_a_create_under_an_id_that_has_run_answers_with_what_was_measured_then(
    gateways: list[httpx.AsyncClient],
) -> None:
    """Nothing starts a second time."""
    one, _ = gateways
    key = {"idempotency-key": "a key of a test of times"}
    first = await one.post("/v1/tasks", json=TRUE, headers=key)
    await until_ended(one, first.json()["links"]["self"])
    second = await one.post("/v1/tasks", json=TRUE, headers=key)

    assert (second.status_code, second.json()["state"]) == (201, "ended")
    assert second.json()["tti"] == first.json()["tti"]


async def until_ended(gateway: httpx.AsyncClient, link: str) -> None:
    """Wait until a task has its result."""

    async def has_ended() -> bool:
        return bool((await gateway.get(link)).json().get("state") == "ended")

    await until(has_ended, within_s=20)


async def test_what_never_runs_user_code_is_answered_when_it_has_ended(
    gateways: list[httpx.AsyncClient],
) -> None:
    """It has no time to interactive, neither now nor later."""
    body = {"kind": "write", "files": [{"path": "a", "text": "x"}]}
    created = await gateways[0].post("/v1/tasks", json=body)

    assert (created.status_code, created.json()["state"]) == (201, "ended")
    assert created.json()["result"]["status"] == "ok"
    for gateway in gateways:
        shown = (await gateway.get(created.json()["links"]["self"])).json()
        assert "tti" not in shown


async def test_a_task_that_starts_after_its_answer_has_its_time_at_the_link(
    gateways: list[httpx.AsyncClient],
) -> None:
    """Measured by whoever took the call, on and on; by the servers' stamps at the other gateway."""
    one, other = gateways
    await warm(one, "narrow")
    holds = (await one.post("/v1/tasks", params=NARROW, json=WAITS)).json()
    created = await one.post("/v1/tasks", params={**NARROW, "wait_s": 0.2}, json=TRUE)
    assert created.status_code == 202
    link = created.headers["location"]
    for gateway in gateways:
        waiting = (await gateway.get(link)).json()
        assert (waiting["state"], "tti" in waiting) == ("accepted", False)
    await end(one, holds)

    mine = (await view_with_tti(one, link))["tti"]
    theirs = (await view_with_tti(other, link))["tti"]
    assert (mine["path"], theirs["path"]) == ("on-demand", "on-demand")
    assert mine["tti_ms"] >= mine["queue_wait_ms"] >= 200
    assert (mine["measured_by"], theirs["measured_by"]) == ("caller", "servers")
    rows = (await one.get("/v1/tti")).json()
    narrow = {row["path"]: row for row in rows["pools"] if row["pool"] == "narrow"}
    assert narrow["on-demand"]["last_ms"] == mine["tti_ms"]


async def test_the_time_outlives_the_gateway_that_took_the_call(
    gateways: list[httpx.AsyncClient], embedded: Folder
) -> None:
    """Killed while the task waits: the servers' stamps say it, at the other one and at its own successor."""
    one, other = gateways
    await warm(one, "narrow")
    holds = (await other.post("/v1/tasks", params=NARROW, json=WAITS)).json()
    created = await one.post("/v1/tasks", params={**NARROW, "wait_s": 0}, json=TRUE)
    assert created.status_code == 202
    table = read_table(embedded)
    assert table is not None
    killed = next(row.process for row in table.rows if row.name == "gateway-1")
    assert killed is not None
    assert killed.send(signal.SIGKILL)
    await end(other, holds)

    told = (await view_with_tti(other, created.headers["location"]))["tti"]
    assert (told["path"], told["measured_by"]) == ("on-demand", "servers")

    async def is_back() -> bool:
        try:
            return (await one.get("/v1/pools")).status_code == 200
        except httpx.TransportError:
            return False

    await until(is_back, within_s=30)
    again = (await view_with_tti(one, created.headers["location"]))["tti"]
    assert again == told


async def test_the_statistics_say_what_came_in_through_this_gateway(
    gateways: list[httpx.AsyncClient],
) -> None:
    """By pool and path, with the number of samples; tasks of a session with a worker by themselves, and one that woke it."""
    one, other = gateways
    await warm(one, "narrow")
    before, elsewhere = await counts(one), await counts(other)
    opened = await one.post("/v1/sessions", params=NARROW)
    tasks = f"/v1/sessions/{opened.json()['session']}/tasks"
    ran = await one.post(tasks, params={"wait_s": 20}, json=TRUE)
    assert check(ran.json()["tti"])["path"] == "bound"
    detached = await one.post(tasks, json=TRUE)
    assert (await view_with_tti(one, detached.json()["links"]["self"]))["tti"]["path"] == "bound"

    async def is_idle() -> bool:
        shown = (await one.get(f"/v1/sessions/{opened.json()['session']}")).json()
        return bool(shown["record"]["state"] == "idle")

    await until(is_idle, within_s=20)
    await warm(one, "narrow")
    woken = await one.post(tasks, params={"wait_s": 20}, json=TRUE)
    assert check(woken.json()["tti"])["path"] == "warm"

    after = await counts(one)
    grown = {key: count - before.get(key, 0) for key, count in after.items()}
    assert (grown["narrow", "warm"], grown["narrow", "bound"]) == (2, 2)
    assert await counts(other) == elsewhere
    await one.delete(f"/v1/sessions/{opened.json()['session']}")


async def counts(gateway: httpx.AsyncClient) -> dict[tuple[str, str], int]:
    """Return how many samples each row rests on."""
    said = (await gateway.get("/v1/tti")).json()
    for row in said["pools"]:
        figures = [row["p50_ms"], row["p90_ms"], row["p99_ms"], row["max_ms"]]
        assert 0 < row["last_ms"] <= row["max_ms"]
        assert figures == sorted(figures)
    return {(row["pool"], row["path"]): row["count"] for row in said["pools"]}
