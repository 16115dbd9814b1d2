"""What every request passes before any route: name, origin, token, rate. Plain ASGI, so that nothing gets around it."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from litestar.types import ASGIApp, Receive, Scope, Send

from gateway.adapters.clients import Clients
from gateway.adapters.http.answers import PROBLEM_TYPE, ProblemError, encode, problem_headers
from gateway.adapters.http.exchange import Exchange, has_body
from gateway.adapters.tenants import Admission, Tenants
from gateway.core import bucket, origins
from gateway.core.pace import Pace
from gateway.core.problems import of_error, problem
from gateway.settings import GatewaySettings
from shared.errors import ServiceError
from shared.rest import Problem

OPEN_PATHS = frozenset({"/v1/openapi.json"})
"""What may be read without a token."""
NEVER_NULL = frozenset({"accepted_ms", "before", "cols", "rows", "state"})
"""Parameters that may be absent, and for which the framework takes the word `null` as just that."""
SAID_ONCE = frozenset(
    {"host", "origin", "authorization", "content-type", "idempotency-key", "last-event-id"}
)
"""Headers that the gateway reads, and of which two would mean two things."""
LENT = "lent_client"
"""Key in a request's state: the `TenantClient` of its tenant."""
ADMITTED = "admission"
"""Key in a request's state: the `Admission` of its token."""
BEHIND = "behind"
"""Key in a request's state: an exit stack for what is to be done when it is over, however that comes."""
REFUSAL = "refusal"
"""Key in the state of a WebSocket whose handshake failed: the `Problem` that says why."""
SUBPROTOCOL = "bearer."
"""Browsers can not set headers on a WebSocket: they name the token as a subprotocol, beside the one they speak."""


class Guard:
    """Lets in who may come in."""

    def __init__(
        self, app: ASGIApp, settings: GatewaySettings, tenants: Tenants, clients: Clients
    ) -> None:
        """Stand before `app`."""
        self._app, self._settings = app, settings
        self._tenants, self._clients = tenants, clients
        self._hosts = frozenset(name.lower() for name in settings.hosts)
        self._origins = frozenset(origin.lower() for origin in settings.origins)
        self._buckets: dict[str, bucket.Bucket] = {}
        self._under_way: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        asked: Any = scope
        if asked["type"] != "http":
            await self._serve(asked, receive, shaken(asked, send))
            return
        if asked["method"] == "OPTIONS":
            # No page elsewhere is to ask: 405 as for any other method that no route has. The framework's own answer
            # names the methods of one of a path's routes alone.
            asked["method"] = "TRACE"
        body_s = self._settings.body_s
        pace = Pace(pause_s_max=body_s, grace_s=body_s)
        exchange = Exchange(receive, send, pace, has_body=has_body(asked["headers"]))
        try:
            await self._serve(asked, exchange.receive, exchange.send)
        except (
            asyncio.CancelledError
        ):  # this gateway leaves, and its time for what is under way is over
            if not exchange.has_begun:
                said = "this gateway leaves before there was an answer: ask another, under the same key"
                gone = problem(503, "draining", said, definite=asked["method"] == "GET")
                await refuse(asked, exchange.send, gone)
            raise

    async def _serve(self, asked: Any, receive: Receive, send: Send) -> None:
        try:
            headers = _headers(asked)
            self._check_origin(headers)
            _check_path(asked["raw_path"])
            _check_query(asked["query_string"])
            if asked["path"] in OPEN_PATHS:
                await self._app(asked, receive, send)
                return
            admission = self._admission(headers)
            tenant = admission.tenant
            self._check_rate(tenant)
        except ProblemError as exc:
            await refuse(asked, send, exc.problem, exc.headers)
            return
        self._under_way[tenant] += 1
        try:
            async with self._clients.of(tenant) as lent, AsyncExitStack() as behind:
                state = {LENT: lent, ADMITTED: admission, BEHIND: behind}
                asked.setdefault("state", {}).update(state)
                await self._app(asked, _while_admitted(receive, admission), send)
        except ServiceError as exc:  # of the lending: what a route raises is answered by the app
            await refuse(asked, send, of_error(exc))
        finally:
            self._under_way[tenant] -= 1

    def _check_origin(self, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        if not origins.is_named_here(host, self._hosts):
            names = ", ".join(sorted(self._hosts))
            raise ProblemError(
                problem(
                    421, "misdirected", f"host: {host[:80]!r} is no name of this gateway ({names})"
                )
            )
        if not origins.may_ask(headers.get("origin"), host, self._origins):
            said = headers["origin"][:80]
            raise ProblemError(
                problem(403, "foreign_origin", f"origin: pages of {said!r} may not ask")
            )

    def _admission(self, headers: dict[str, str]) -> Admission:
        token = _token(headers)
        if token is None:
            raise ProblemError(
                problem(401, "unauthorized", "authorization: `Bearer <token>` expected")
            )
        admission = self._tenants.of_token(token)
        if admission is None:
            raise ProblemError(problem(401, "unauthorized", "authorization: no such token"))
        return admission

    def _check_rate(self, tenant: str) -> None:
        settings = self._settings
        if self._under_way[tenant] >= settings.tenant_requests_max:
            detail = f"{settings.tenant_requests_max} requests of this tenant are under way (tenant_requests_max)"
            raise ProblemError(problem(429, "too_many_requests", detail))
        now_s = asyncio.get_running_loop().time()
        left = self._buckets.get(tenant)
        if left is None:
            left = bucket.full(settings.requests_per_s, settings.requests_burst, now_s)
            self._buckets[tenant] = left
        if wait_s := left.take(now_s):
            detail = f"more than {settings.requests_per_s:g} requests of this tenant each second (requests_per_s)"
            raise ProblemError(
                problem(429, "too_many_requests", detail),
                {"retry-after": str(math.ceil(wait_s))},
            )


def _while_admitted(receive: Receive, admission: Admission) -> Receive:
    """Return a channel on which nothing more comes in once the token is withdrawn: a body may take hours."""

    async def receive_more() -> Any:
        message = await receive()
        if message["type"] == "http.request" and admission.withdrawn.is_set():
            said = "authorization: the token was withdrawn"
            raise ProblemError(problem(401, "unauthorized", said))
        return message

    return receive_more


def _headers(scope: dict[str, Any]) -> dict[str, str]:
    """Return the headers that the guard reads; a repeated one can not be trusted to mean anything."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        known = name.decode("latin-1")
        if known in found and known in SAID_ONCE:
            raise ProblemError(problem(400, "invalid_message", f"{known}: given more than once"))
        found[known] = value.decode("latin-1")
    return found


def _check_path(path: bytes) -> None:
    """Refuse a path that is no UTF-8: with U+FFFD in the place of such bytes, many names of files would be one."""
    try:
        unquote_to_bytes(path).decode()
    except UnicodeDecodeError as exc:
        raise ProblemError(problem(400, "invalid_message", "path: UTF-8 expected")) from exc


def _check_query(query: bytes) -> None:
    """Refuse what would be read as something else than was said: one of two values, the word `null` as nothing, or what
    stands in the place of bytes that are no UTF-8.
    """
    try:
        said = parse_qsl(query.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as exc:
        raise ProblemError(problem(400, "invalid_message", "query: UTF-8 expected")) from exc
    seen: set[str] = set()
    for name, value in said:
        if name in seen:
            raise ProblemError(
                problem(400, "invalid_message", f"{name[:80]}: given more than once")
            )
        seen.add(name)
        if value == "null" and name in NEVER_NULL:
            raise ProblemError(problem(400, "invalid_message", f"{name}: null is no value"))


def _token(headers: dict[str, str]) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    for word in headers.get("sec-websocket-protocol", "").split(","):
        if word.strip().startswith(SUBPROTOCOL):
            return word.strip().removeprefix(SUBPROTOCOL)
    return None


def shaken(scope: dict[str, Any], send: Send) -> Send:
    """Return a channel on which a WebSocket that is closed before it was accepted is answered with a problem."""
    has_answered = False

    async def answer(message: Any) -> None:
        nonlocal has_answered
        if message["type"] == "websocket.close" and not has_answered:
            ours = problem(500, "internal", "a fault of ours", definite=False)
            await refuse(scope, send, scope.get("state", {}).get(REFUSAL, ours))
        else:
            await send(message)
        has_answered = True

    return answer


async def refuse(
    scope: dict[str, Any], send: Send, said: Problem, headers: dict[str, str] | None = None
) -> None:
    """Answer a request, or a WebSocket's handshake, with a problem."""
    body = encode(said)
    fields = problem_headers(said, headers) | {
        "content-type": PROBLEM_TYPE,
        "content-length": str(len(body)),
    }
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    wire = [(name.encode(), value.encode("latin-1")) for name, value in fields.items()]
    begin: Any = {"type": f"{kind}.start", "status": said.status, "headers": wire}
    end: Any = {"type": f"{kind}.body", "body": body, "more_body": False}
    await send(begin)
    await send(end)
