"""An API server of Kubernetes that says what a test wants: over HTTP, with real connections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aiohttp import web


class ApiServer:
    """Answers each request by the next of the test's answers; the last one stays."""

    def __init__(self) -> None:
        """Be silent until `run`."""
        self.answers: list[Any] = []
        self.asked: list[web.Request] = []
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def run(self, port: int = 0) -> None:
        """Listen."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Listen no more; break all connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            made: web.StreamResponse = await answer(request)
            return made
        status, body = answer
        return web.json_response(body, status=status)


def kubeconfig(folder: Path, server: ApiServer) -> str:
    """Write how the server is reached."""
    path = folder / "kubeconfig"
    named = {"cluster": {"server": f"http://127.0.0.1:{server.port}"}, "name": "c"}
    context = {"context": {"cluster": "c", "user": "u"}, "name": "x"}
    user = {"name": "u", "user": {"token": "secret"}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [named],
        "contexts": [context],
        "users": [user],
        "current-context": "x",
    }
    path.write_text(json.dumps(config))
    return str(path)
