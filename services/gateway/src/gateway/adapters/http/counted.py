"""Every request, counted and timed by its route; plain ASGI, around all the rest."""

from __future__ import annotations

import time
from typing import Any

from litestar.types import ASGIApp, Receive, Scope, Send

from shared.metrics import OTHER, Book, declared

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REFUSED = "refused"


class Counted:
    """An application whose answers go into the metrics."""

    def __init__(self, app: ASGIApp, book: Book) -> None:
        """Stand before `app`."""
        self._app, self._book = app, book
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through and note how it was answered."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        began, code, first_s = time.monotonic(), 0, None

        async def note(message: Any) -> None:
            nonlocal code, first_s
            if first_s is None:
                first_s = time.monotonic() - began
                code = _code_of(message)
            await send(message)

        self._change(1)
        try:
            await self._app(scope, receive, note)
        finally:
            self._change(-1)
            asked: Any = scope
            method = "WEBSOCKET" if asked["type"] == "websocket" else asked["method"]
            method = method if method in METHODS or method == "WEBSOCKET" else OTHER
            route = asked.get("path_template") or REFUSED
            self._book.add(declared.HTTP_REQUESTS, method, route, str(code))
            if first_s is not None:
                self._book.observe(declared.HTTP_DURATION, method, route, seconds=first_s)

    def _change(self, by: int) -> None:
        self._open += by
        self._book.set(declared.HTTP_OPEN, value=self._open)


def _code_of(message: Any) -> int:
    """Return the status code of an answer's first message."""
    match message["type"]:
        case "http.response.start" | "websocket.http.response.start":
            return int(message["status"])
        case "websocket.accept":
            return 101
        case _:
            return 403  # a WebSocket that is closed before it was accepted
