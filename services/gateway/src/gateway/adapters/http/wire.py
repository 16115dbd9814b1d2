"""Connections: how many, how long a request's head may take and how large it may be; uvicorn bounds none of it.

A connection without a request under way is *idle*: new, between two requests, or with half a head. When all places are
taken, the oldest idle one makes room, so that those who send nothing shut nobody out.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gateway.adapters.http.answers import PROBLEM_TYPE, encode
from gateway.adapters.http.exchange import has_body
from gateway.core.problems import problem
from gateway.settings import GatewaySettings
from shared import logs
from shared.rest import Problem

log = logs.get(__name__)

HEAD_BYTES_MAX = 32 * 1024
"""A request's line and headers. Above: it is refused."""
MESSAGE_BYTES_MAX = 64 * 1024
"""One message of a WebSocket's client."""
PONG_S = 75.0
"""A WebSocket's reader is gone when he does not answer for so long: longer than what he sends may have to wait for being
read (`desks.STUCK_S`), which an answer waits behind."""
UNREAD_S_MAX = 30
"""Longest time for which a caller takes nothing of an answer; then its connection is cut, by the kernel."""
LINGER_S = 2.0
"""A caller that is refused has so long to take the answer, while what it still sends goes nowhere."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for connections."""

    connections_max: int
    head_s: float
    unread_s: float = UNREAD_S_MAX


class Places:
    """The connections of one server."""

    def __init__(self, bounds: Bounds) -> None:
        """Have room for so many."""
        self.bounds = bounds
        self.taken: set[asyncio.BaseTransport] = set()
        self.idle: OrderedDict[BoundedHttp, None] = OrderedDict()

    def take(self, transport: asyncio.BaseTransport) -> bool:
        """Take a place, at the cost of the oldest idle connection where all are taken; return whether there was one."""
        if len(self.taken) >= self.bounds.connections_max:
            if not self.idle:
                return False
            oldest, _ = self.idle.popitem(last=False)
            oldest.make_room()
        self.taken.add(transport)
        return True

    def leave(self, transport: asyncio.BaseTransport) -> None:
        """Give a place back."""
        self.taken.discard(transport)


class BoundedHttp(HttpToolsProtocol):
    """A connection that speaks HTTP."""

    def __init__(self, places: Places, **given: Any) -> None:
        """Take a place as soon as it is there."""
        super().__init__(**given)
        self._places = places
        self._in_head = True
        self._head_bytes = 0
        self._framing_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._refusal: Problem | None = None
        self._is_refused = False
        self._has_begun = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base
        """Take a place, or be turned away."""
        super().connection_made(transport)
        endpoint = transport.get_extra_info("socket")
        unread_ms = int(self._places.bounds.unread_s * 1000)
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unread_ms)
        if not self._places.take(transport):
            log.warning("connection.turned_away", taken=len(self._places.taken))
            most = self._places.bounds.connections_max
            self._refuse(problem(503, "unavailable", f"all {most} connections are in use"))
            return
        self._places.idle[self] = None
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._disarm()
        self._places.idle.pop(self, None)
        self._places.leave(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; of a head only so many, and for so long."""
        if self._is_refused or self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
        self._framing_bytes += len(data)
        super().data_received(data)
        if self._is_refused:
            return
        if self._in_head:
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(_too_large())
            elif self._head_timer is None:
                self._arm()
        elif self._framing_bytes > HEAD_BYTES_MAX:
            self._refuse(_too_framed())

    def on_message_begin(self) -> None:
        """Begin a head."""
        super().on_message_begin()
        self._in_head = self._has_begun = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; one behind the body says nothing here, and has no bound in the parser."""
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body: what was sent around it is done with."""
        self._framing_bytes = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """End a head: a request is under way, if it is not too large."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > HEAD_BYTES_MAX:
            self._refusal = _too_large()
            raise ValueError("head too large")  # the parser stops, and `send_400_response` says why
        upgrades = self.parser.should_upgrade()
        if upgrades and self._should_upgrade() and not self._can_become_websocket():
            said = "request: a WebSocket begins with a GET without a body, behind the answers to all before it"
            self._refusal = problem(400, "invalid_message", said)
            raise ValueError("no WebSocket")
        self._in_head = self._has_begun = False
        self._head_bytes = self._framing_bytes = 0
        self._disarm()
        self._places.idle.pop(self, None)
        super().on_headers_complete()
        if upgrades and not self._should_upgrade():
            self.cycle.keep_alive = False  # answered as it is; the parser reads nothing behind it

    def on_response_complete(self) -> None:
        """Be idle again, unless the next request is here already."""
        super().on_response_complete()
        if not self.transport.is_closing() and not self._is_busy():
            self._places.idle[self] = None

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection on; its place goes with it."""
        self._disarm()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse(self._refusal or problem(400, "invalid_message", f"request: {msg}"))

    def make_room(self) -> None:
        """Go, for a connection that may have something to say."""
        self.transport.abort()

    def _can_become_websocket(self) -> bool:
        """Return whether nothing stands between this request and its upgrade: nobody would wait for a body, no time
        would bound it, and an answer under way would never learn that its reader is gone.
        """
        is_bare_get = self.parser.get_method() == b"GET" and not has_body(self.headers)
        return is_bare_get and not self._is_busy()

    def _is_busy(self) -> bool:
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        return cycle is not None and not cycle.response_complete

    def _fails_in_its_body(self) -> bool:
        """Return whether the request under way is the one that can't be read; then its application has seen it off."""
        cycle: Any = self.cycle
        if self.pipeline or cycle.response_started or not cycle.more_body:
            return False
        cycle.disconnected = True
        cycle.message_event.set()
        return True

    def _arm(self) -> None:
        self._head_timer = self.loop.call_later(self._places.bounds.head_s, self._head_is_late)

    def _disarm(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._is_busy():  # an answer to its former request is on its way
            self._arm()
            return
        if not self._has_begun:  # it never said anything: there is nothing to answer
            self.transport.abort()
            return
        most = self._places.bounds.head_s
        self._refuse(problem(408, "request_timeout", f"head: not complete after {most:g} s"))

    def _refuse(self, said: Problem) -> None:
        """Answer outside of any request, and close: not at once, which would reset the connection and lose the answer."""
        self._is_refused = True
        self._disarm()
        if self._is_busy() and not self._fails_in_its_body():
            self.cycle.keep_alive = (
                False  # not into the middle of another answer: it ends behind that
            )
            return
        body = encode(said)
        status = HTTPStatus(said.status)
        head = (
            f"HTTP/1.1 {said.status} {status.phrase}\r\ncontent-type: {PROBLEM_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.abort)


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """A connection that speaks WebSocket now, in the place that it had before."""

    def __init__(self, places: Places, **given: Any) -> None:
        """Know where the place is."""
        super().__init__(**given)
        self._places = places

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._places.leave(self.transport)
        super().connection_lost(exc)

    async def send(self, message: Any) -> None:
        """Send; a handshake that was refused is complete, and nothing to complain of."""
        await super().send(message)
        self.handshake_complete = self.handshake_complete or self.close_sent


def _too_large() -> Problem:
    said = f"head: a request's line and headers have at most {HEAD_BYTES_MAX} bytes"
    return problem(431, "limit_exceeded", said)


def _too_framed() -> Problem:
    said = f"body: at most {HEAD_BYTES_MAX} bytes between two pieces of a body, and behind it"
    return problem(400, "invalid_message", said)


def make_server(app: Any, settings: GatewaySettings) -> uvicorn.Server:
    """Return a server of `app`, to be run by `_serve`: signals are the service's business."""
    places = Places(
        Bounds(
            connections_max=settings.connections_max,
            head_s=settings.head_s,
            unread_s=settings.unread_s,
        )
    )
    http: Any = partial(BoundedHttp, places)
    websocket: Any = partial(BoundedWebSocket, places)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=http,
        ws=websocket,
        ws_max_size=MESSAGE_BYTES_MAX,
        ws_ping_timeout=PONG_S,
        ws_per_message_deflate=False,  # a window for each connection costs more than it saves
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=int(settings.idle_s),
        timeout_graceful_shutdown=max(1, int(settings.drain_s)),
    )
    return uvicorn.Server(config)
