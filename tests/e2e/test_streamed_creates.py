"""Creates that are answered with the task's events: one request from a task to its output."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing

import pytest
from tests.e2e.streamed import Site, collect, shown

from agent_sandbox.embedded.folder import Folder

SAY = {"kind": "command", "shell": "echo hi; echo err >&2"}


@pytest.fixture
async def site(embedded: Folder) -> Site:
    """The gateways of the shared cluster."""
    return await asyncio.to_thread(Site, embedded)


@pytest.mark.parametrize("where", ["/v1/tasks", "/v1/sessions", "next"])
async def test_a_create_is_answered_with_the_tasks_events(site: Site, where: str) -> None:
    """First that it is accepted, with its view; from there on what any reader of its stream is shown."""
    async with site.http() as http:
        path = where
        if where == "next":
            session = (await http.post("/v1/sessions")).json()["session"]
            path = f"/v1/sessions/{session}/tasks"
        events = await collect(site.created(path, SAY))

        view = events[0].view
        assert view is not None
        assert (events[0].event, view.state) == ("accepted", "accepted")
        assert [event.event for event in events[1:]] == ["started", "output", "output", "result"]
        assert (shown(events), shown(events, "stderr")) == (b"hi\n", b"err\n")
        again = view.links["output"]
        for after in ("", events[0].id):
            said = await http.get(again, headers={"last-event-id": after} if after else {})
            assert said.text.count("\nevent: ") == len(events) - 1, "the same but for `accepted`"
        shows = (await http.get(view.links["self"])).json()
        assert shows["tti"]["measured_by"] == "caller", "taken where the call came in"
        if where != "/v1/tasks":
            await http.delete(view.links["session"], params={"wait_s": 0})


async def test_the_same_create_again_shows_all_of_the_task(site: Site) -> None:
    """On another gateway, while the task runs and says nothing more: what it had said before is there soon."""
    key, task = str(uuid.uuid4()), {"kind": "command", "shell": "echo early; sleep 20"}
    for gateway in (0, 1):
        seen = []
        async with aclosing(site.created("/v1/tasks", task, gateway=gateway, key=key)) as events:
            async for event in events:
                seen.append(event)
                if event.event == "output":
                    break
        assert [event.event for event in seen] == ["accepted", "started", "output"]
        assert (seen[0].task, shown(seen)) == (key, b"early\n")
    async with site.http() as http:
        cancelled = await http.post(f"/v1/tasks/{key}/cancel")
        assert cancelled.json()["outcome"] == "cancelled", "it still ran"


async def test_a_create_that_is_refused_has_no_stream(site: Site) -> None:
    """Its answer is a problem, as ever; nor has one that was never published."""
    async with site.http() as http:
        headers = {"accept": "text/event-stream"}
        refused = await http.post("/v1/tasks?pool=none-such", json=SAY, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
        shown_none = await http.get(f"/v1/tasks/{refused.json()['task']}/output")
        assert shown_none.status_code == 404
