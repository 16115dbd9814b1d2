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


async def open_session(http: httpx.AsyncClient) -> str:
    """Return a new session that a worker has."""
    created = await http.post("/v1/sessions")
    assert created.status_code in (201, 202), created.text
    session = str(created.json()["session"])

    async def is_known() -> bool:
        return (await http.get(f"/v1/sessions/{session}")).status_code == 200

    await until(is_known, within_s=20)
    return session


async def test_a_session_runs_tasks_lists_them_and_is_closed(http: httpx.AsyncClient) -> None:
    """With the result in the answer where the caller waits for it."""
    session = await open_session(http)
    tasks = f"/v1/sessions/{session}/tasks"
    task = {"kind": "command", "shell": "echo one"}
    ran = await http.post(tasks, params={"wait_s": 20}, json=task)
    assert ran.status_code == 200, ran.text
    assert ran.json()["result"]["stdout"]["text"] == "one\n"
    listed = (await http.get(tasks)).json()["tasks"]
    assert [row["kind"] for row in listed] == ["open", "command"]
    own = (await http.get(ran.json()["links"]["self"])).json()
    assert own["result"] == ran.json()["result"]

    closed = await http.delete(f"/v1/sessions/{session}")
    assert closed.status_code == 200, closed.text
    assert (await http.get(f"/v1/sessions/{session}")).json()["record"]["state"] == "closed"
    again = await http.delete(f"/v1/sessions/{session}")
    assert again.status_code == 200, "closing what has ended does nothing"
    refused = await http.put(f"/v1/sessions/{session}/files/x", content=b"late")
    assert (refused.status_code, refused.json()["code"]) == (409, "session_ended")


async def test_the_same_idempotency_key_runs_once(http: httpx.AsyncClient) -> None:
    """Whatever is retried by whatever stands between."""
    session = await open_session(http)
    tasks = f"/v1/sessions/{session}/tasks"
    task = {"kind": "command", "shell": "echo run >> log; wc -l < log"}
    for _ in range(3):
        ran = await http.post(
            tasks, params={"wait_s": 20}, json=task, headers={"idempotency-key": "my first try"}
        )
        assert ran.json()["result"]["stdout"]["text"].strip() == "1"
    other = await http.post(
        tasks, params={"wait_s": 20}, json=task, headers={"idempotency-key": "my second try"}
    )
    assert other.json()["result"]["stdout"]["text"].strip() == "2"


async def test_files_of_any_size_go_both_ways(http: httpx.AsyncClient) -> None:
    """Small ones in a message, large ones through the object store; nothing of a large one is left there."""
    session = await open_session(http)
    files = f"/v1/sessions/{session}/files"
    for name, content in (("a/small.txt", b"hello"), ("empty", b""), ("big", bytes(3_000_001))):
        put = await http.put(f"{files}/{name}", content=content, params={"mode": "0640"})
        assert put.status_code == 204, put.text
        got = await http.get(f"{files}/{name}")
        assert (got.status_code, got.content) == (200, content)
    listed = (await http.get(files)).json()["entries"]
    assert {(e["name"], e.get("mode")) for e in listed if e["type"] == "file"} == {
        ("big", 0o640),
        ("empty", 0o640),
    }
    assert (await http.delete(f"{files}/a", params={"recursive": True})).status_code == 204
    gone = await http.get(f"{files}/a/small.txt")
    assert (gone.status_code, gone.json()["field"]) == (404, "path")
    outside = await http.get(f"{files}/%2e%2e/%2e%2e/etc/passwd")
    assert (outside.status_code, outside.json()["code"]) == (403, "outside_workspace")


async def test_what_can_not_be_read_is_named_with_its_limit(http: httpx.AsyncClient) -> None:
    """A caller sees what to mend without asking anybody."""
    body = {"kind": "command", "argv": ["true"], "timeout_s": 1e9}
    said = (await http.post("/v1/tasks", json=body)).json()
    assert (said["status"], said["field"]) == (400, "timeout_s")
    assert said["limit"] == "TIMEOUT_S_MAX=86400"
    huge = await http.post("/v1/tasks", json={**body, "argv": ["x" * 300_000]})
    assert (huge.status_code, huge.json()["field"]) == (413, "body")
    assert huge.json()["limit"] == "BODY_BYTES_MAX=262144"
    nowhere = await http.post("/v1/tasks", params={"pool": "nowhere"}, json={"kind": "open"})
    assert nowhere.status_code == 404
    assert "default" in nowhere.json()["detail"], "those that there are"
    for path, field in (("/v1/sessions?limit=0", "limit"), ("/v1/sessions?state=odd", "state")):
        asked = (await http.get(path)).json()
        assert (asked["status"], asked["field"]) == (400, field)
