"""Two tenants at one gateway: neither loses anything by the other, nor learns what the other has."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from tests.e2e.door import MINE, OTHERS, Door
from websockets.exceptions import InvalidStatus

from agent_sandbox.embedded.folder import Folder

OWN, FOREIGN = "a-token-of-mine", "a-token-of-others"
ECHO = {"kind": "command", "shell": "echo mine"}
VARIES = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|accepted_ms=\d+|_ms\":[\d.]+|end\.[0-9a-f]+"
)
TRIES = 6
"""A first task's shard is drawn for each publish: so many ids meet in one of the three."""


@pytest.fixture
async def door(embedded: Folder, tmp_path: Path) -> AsyncIterator[Door]:
    """A gateway in this process, with a token for each of two tenants."""
    made = await asyncio.to_thread(Door, embedded, tmp_path)
    made.admit({MINE: [OWN], OTHERS: [FOREIGN]})
    async with made.opened():
        yield made


async def test_an_id_that_another_tenant_has_used_is_as_good_as_any(door: Door) -> None:
    """A stream keeps one message of an id: the other's would keep mine out, and I would be told that it is accepted."""
    async with door.http(OWN) as mine, door.http(FOREIGN) as theirs:
        session = (await mine.post("/v1/sessions")).json()["session"]

        async def run(path: str, key: str) -> str:
            """Run it under an id that the other has used just now; return what it wrote."""
            headers, params = {"idempotency-key": key}, {"wait_s": 0}
            await theirs.post(path, json=ECHO, headers=headers, params=params)
            made = await mine.post(path, json=ECHO, headers=headers, params=params)
            assert made.status_code in (201, 202), made.text
            place = made.json()["links"]["result"]
            result = (await mine.get(place, params={"wait_s": 20})).json()
            return str(result.get("stdout", result))

        keys = [str(uuid.uuid4()) for _ in range(TRIES)]
        said = await asyncio.gather(*(run("/v1/tasks", key) for key in keys))
        assert said == [str({"text": "mine\n", "size": 5})] * TRIES
        assert await run(f"/v1/sessions/{session}/tasks", str(uuid.uuid4())) == said[0]

        stored = [await who.put(f"/v1/objects/{keys[0]}/0", content=b"x") for who in (theirs, mine)]
        assert [answer.status_code for answer in stored] == [204, 204]
        assert (await mine.get(f"/v1/objects/{keys[0]}/0")).content == b"x"
        for who in (mine, theirs):
            await who.delete(f"/v1/objects/{keys[0]}")
        await mine.delete(f"/v1/sessions/{session}")


class Names(NamedTuple):
    """What stands in the places of a path."""

    session: str
    task: str
    object: str
    worker: str

    def fill(self, path: str) -> str:
        """Return a route's path with these names."""
        first = "/v1/tasks/" in path
        return (
            path.replace("{session_id}", self.session)
            .replace("{task_id}", self.session if first else self.task)
            .replace("{object_id}", self.object)
            .replace("{number}", "0" if "/objects/" in path else "987654")
            .replace("{path}", "secret")
        )


async def told(http: httpx.AsyncClient, method: str, path: str, names: Names) -> tuple[int, str]:
    """Return an answer, whatever ids are in it."""
    params: dict[str, str] = {}
    if path.endswith("/terminal"):
        params = {"worker": names.worker, "rows": "2", "cols": "2"}
    content = b"" if method in ("get", "delete") else json.dumps(ECHO).encode()
    answer = await http.request(
        method,
        names.fill(path),
        content=content,
        params=params,
        headers={"content-type": "application/json"},
    )
    return answer.status_code, VARIES.sub("*", answer.text)


@pytest.mark.slow
async def test_what_another_tenant_has_looks_like_what_nobody_has(door: Door) -> None:
    """On every route with an id in its path, and over WebSockets; and all of it is there afterwards."""
    async with door.http(OWN) as mine, door.http(FOREIGN) as theirs:
        opened = (await mine.post("/v1/sessions")).json()
        session = str(opened["session"])
        await mine.put(f"/v1/sessions/{session}/files/secret", content=b"secret")
        shell = {"kind": "command", "shell": "cat", "tty": {}}
        made = await mine.post(f"/v1/sessions/{session}/tasks", json=shell)
        task, object_id = str(made.json()["task"]), str(uuid.uuid4())
        worker = (await mine.get(f"/v1/sessions/{session}")).json()["record"]["owner"]
        await mine.put(f"/v1/objects/{object_id}/0", content=b"secret")
        real = Names(session, task, object_id, worker)
        nobody = Names(*(str(uuid.uuid4()) for _ in range(3)), worker="default-9-9")

        document: dict[str, Any] = (await mine.get("/v1/openapi.json")).json()["paths"]
        routes = [
            (method, path)
            for path, methods in document.items()
            for method in methods
            if "{" in path and method in ("get", "put", "post", "delete")
        ]
        assert len(routes) > 15
        for path in (f"/v1/sessions/%s/tasks/{task}/stream", "/v1/tasks/%s/stream"):
            for name in (real.session, nobody.session):
                with pytest.raises(InvalidStatus) as refused:
                    async with door.socket(path % name, FOREIGN):
                        pass
                assert refused.value.response.status_code == 404
        for method, path in routes:
            found = await asyncio.gather(
                *(told(theirs, method, path, names) for names in (real, nobody))
            )
            assert found[0] == found[1], (method, path)
        assert (await mine.get(f"/v1/objects/{object_id}/0")).content == b"secret"
        shown = (await mine.get(f"/v1/sessions/{session}")).json()
        assert (shown["record"]["state"], shown["task"]) == ("running", task)
        await mine.delete(f"/v1/objects/{object_id}")
        await mine.post(f"/v1/sessions/{session}/tasks/{task}/cancel")
        await mine.delete(f"/v1/sessions/{session}")
