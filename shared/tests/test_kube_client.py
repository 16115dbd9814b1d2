"""Requests to a Kubernetes API, on connections that break."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from shared.errors import Conflict, InvalidMessage, OutcomeUnknown, Unavailable
from shared.kube.client import Access, KubeApi, open_api
from shared.testing.api_server import ApiServer

PODS = "/api/v1/namespaces/pods/pods"


async def test_an_answer_is_read_whole_under_the_credential(
    server: ApiServer, api: KubeApi
) -> None:
    """Whatever its size."""
    server.answers = [(200, {"text": "x" * 300_000})]
    assert len(await api.get(PODS, {"labelSelector": "a=b,c"})) > 300_000
    (asked,) = server.asked
    assert asked.headers["Authorization"] == "Bearer secret"
    assert asked.query["labelSelector"] == "a=b,c"


async def test_a_write_that_is_not_answered_may_have_been_done(
    server: ApiServer, api: KubeApi
) -> None:
    """Late, or broken off; it is asked once."""

    async def silent(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        raise AssertionError

    async def broken(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    for answer in (silent, broken):
        server.answers, server.asked = [answer], []
        with pytest.raises(OutcomeUnknown):
            await api.create(PODS, {"metadata": {}}, timeout_s=0.3)
        assert len(server.asked) == 1
        with pytest.raises(Unavailable):
            await api.get(PODS, timeout_s=0.3)


async def test_a_server_that_refuses_surely_did_nothing(server: ApiServer, api: KubeApi) -> None:
    """Its reason is passed on; also when nobody listens."""
    server.answers = [(409, {"message": "already exists"})]
    with pytest.raises(Conflict, match="already exists"):
        await api.create(PODS, {})
    await server.stop()
    with pytest.raises(Unavailable, match="is not reached"):
        await api.create(PODS, {})


async def test_a_change_is_sent_as_a_json_patch(server: ApiServer, api: KubeApi) -> None:
    """A list of operations, under the type by which the API server takes it for one."""
    bodies: list[object] = []

    async def takes(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        return web.json_response({})

    server.answers = [takes]
    operations = [{"op": "add", "path": "/spec/taints", "value": [{"key": "k"}]}]
    await api.patch("/api/v1/nodes/n-1", operations)

    (asked,) = server.asked
    assert (asked.method, asked.content_type) == ("PATCH", "application/json-patch+json")
    assert bodies == [operations]


async def test_a_configuration_that_is_none_is_named(tmp_path: Path) -> None:
    """Before anything is asked."""
    with pytest.raises(InvalidMessage, match="nowhere"):
        async with open_api(Access(kubeconfig=str(tmp_path / "nowhere"))):
            pass
    (tmp_path / "empty").write_text("{}")
    with pytest.raises(InvalidMessage):
        async with open_api(Access(kubeconfig=str(tmp_path / "empty"))):
            pass
