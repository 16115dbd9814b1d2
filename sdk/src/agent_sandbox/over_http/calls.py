"""One request after another, to whichever gateway answers.

All that a client asks may be asked again: a task has its id, a reading changes nothing, an end that was asked for stays
one. So a gateway that dies, hangs or leaves costs a try and no more.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Literal

import httpx
import msgspec

from agent_sandbox.access import Access, is_here
from agent_sandbox.over_http.problems import TooManyRequests, error_of_answer
from agent_sandbox.tracing import put_context
from shared.errors import (
    InvalidMessage,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)

TRY_S = 6.0
"""Longest wait for one gateway's answer where it need not wait itself; then another is asked."""
CONNECT_S = 3.0
AGAIN_S = 0.2
"""Pause when all gateways were asked in vain."""
CONNECTIONS_MAX = 256
"""Connections of one client."""
KINDS = {"json": "application/json", "bytes": "application/octet-stream"}
STREAMS_MAX = 192
"""Of those, for streams: further ones wait for a place, while the results of their tasks are asked for."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request."""

    method: str
    path: str
    params: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: bytes | None = None
    changes: bool = False
    """It changes something: after a try without an answer, a refusal of the next does not mean that it did not happen."""
    try_s: float = TRY_S
    answers: Literal["json", "bytes", "nothing"] = "json"
    """What a gateway answers where all is well."""
    silent_s: float | None = None
    """Its answer may be a stream, on which something comes at least so often; None: it is read whole."""


def _believed(access: Access) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=access.ca)
    except OSError as exc:  # an SSLError is one, too
        raise Rejected(f"TLS with {access.ca}: {exc}") from exc


class Calls:
    """Asks gateways, the last one that answered first."""

    def __init__(self, access: Access) -> None:
        """Connect nowhere yet.

        Raises:
            Rejected: the certificates to believe are none.
        """
        headers = {"user-agent": "agent-sandbox"}
        if access.token is not None:
            headers["authorization"] = f"Bearer {access.token}"
        self._urls = tuple(address.rstrip("/") for address in access.servers)
        self._at = 0
        self._is_closed = False
        self._places = asyncio.Semaphore(STREAMS_MAX)
        # Each context costs some 20 ms of reading certificates: none where no gateway wants one.
        verify = any(url.startswith("https") for url in self._urls)
        self._client = httpx.AsyncClient(
            headers=headers,
            event_hooks={"request": [put_context]},
            timeout=httpx.Timeout(TRY_S, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=16),
            mounts={url: None for url in self._urls if is_here(url)},  # no proxy to ourselves
            verify=_believed(access) if verify else False,
        )

    async def close(self) -> None:
        """Close all connections; who asks from now on is told so."""
        self._is_closed = True
        await self._client.aclose()

    async def ask(self, call: Call, *, within_s: float) -> httpx.Response:
        """Ask, again at the next gateway while there is time; return the first answer that is no error.

        Raises:
            ServiceError: what the gateway says; see `error_of_answer`.
            Unavailable: no gateway took it in time: it surely did not happen.
            OutcomeUnknown: no answer in time.
        """
        if self._is_closed:
            raise Unavailable("the client is closed")
        until = time.monotonic() + within_s
        unsure: ServiceError | None = None
        tries = 0
        while True:
            left_s = until - time.monotonic()
            try:
                return await self._try(call, max(AGAIN_S, left_s))
            except (Unavailable, OutcomeUnknown) as exc:
                said: ServiceError = exc
                unsure = unsure if exc.definite else exc
                self._at += 1
                tries += 1
                pause_s = AGAIN_S if tries % len(self._urls) == 0 else 0.0
            except TooManyRequests as exc:
                said, pause_s = exc, exc.after_s
            except Rejected as exc:
                if unsure is None or not call.changes or isinstance(exc, InvalidMessage):
                    raise
                raise OutcomeUnknown(f"{unsure}; then: {exc}") from exc
            if time.monotonic() + pause_s >= until:
                raise (unsure or said) from said.__cause__
            await asyncio.sleep(pause_s)

    @property
    def has_place(self) -> bool:
        """Whether a stream can be opened now."""
        return not self._places.locked()

    async def begin(self, call: Call, *, within_s: float) -> httpx.Response:
        """Ask, like `ask`, for a stream, which takes a place until `reading` or `leave` gives it back.

        Returns:
            The answer; one that is no stream (`is_stream`) is read whole, and takes no place.
        """
        await self._places.acquire()
        answer = None
        try:
            answer = await self.ask(call, within_s=within_s)
        finally:
            if answer is None or not is_stream(answer):
                self._places.release()
        return answer

    @asynccontextmanager
    async def reading(self, answer: httpx.Response) -> AsyncIterator[AsyncIterator[bytes]]:
        """Read a stream that was begun.

        Raises:
            OutcomeUnknown: it broke off; the next turn is another gateway's.
        """
        try:
            with self._next_if_broken(answer.url.path):
                yield answer.aiter_bytes()
        finally:
            await self.leave(answer)

    async def leave(self, answer: httpx.Response) -> None:
        """Close a stream that was begun, and give its place back."""
        self._places.release()
        await answer.aclose()

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], silent_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream at the gateway of this turn; it ends with an error where the gateway is silent too long.

        With STREAMS_MAX open, it waits until one of them ends; the caller bounds that.

        Raises:
            ServiceError: what the gateway says.
            Unavailable: it can't be reached; the next turn is another's.
            OutcomeUnknown: it broke off, likewise.
        """
        timeout = httpx.Timeout(silent_s, connect=CONNECT_S)
        with self._next_if_broken(path):
            async with (
                self._places,
                self._client.stream(
                    "GET", self._url(path), headers=dict(headers), timeout=timeout
                ) as answer,
            ):
                if not answer.is_success:
                    raise error_of_answer(answer.status_code, answer.headers, await answer.aread())
                if not is_stream(answer):
                    raise _stranger(answer)
                yield answer.aiter_bytes()

    @contextmanager
    def _next_if_broken(self, path: str) -> Iterator[None]:
        """Let a stream that breaks off be gone on with at the next gateway."""
        try:
            yield
        except (Unavailable, OutcomeUnknown):
            self._at += 1
            raise
        except httpx.TransportError as exc:
            self._at += 1
            raise _of_transport(exc, path) from exc

    async def _try(self, call: Call, left_s: float) -> httpx.Response:
        try:
            async with asyncio.timeout(min(left_s, call.try_s)):
                request = self._client.build_request(
                    call.method,
                    self._url(call.path),
                    params=call.params,
                    headers=call.headers,
                    content=call.body,
                    timeout=httpx.Timeout(call.silent_s or call.try_s, connect=CONNECT_S),
                )
                answer = await self._client.send(request, stream=call.silent_s is not None)
                if not is_stream(answer):
                    await answer.aread()
        except TimeoutError as exc:
            raise OutcomeUnknown(f"{call.method} {call.path}: no answer in time") from exc
        except httpx.TransportError as exc:
            raise _of_transport(exc, f"{call.method} {call.path}") from exc
        if answer.is_success:  # a redirection is followed by nobody: the token would go along
            if not _is_a_gateways(answer, call):
                raise _stranger(answer)
            return answer
        raise error_of_answer(answer.status_code, answer.headers, answer.content)

    def _url(self, path: str) -> str:
        return self._urls[self._at % len(self._urls)] + path


def is_stream(answer: httpx.Response) -> bool:
    """Return whether an answer is a stream of events, to be read as it comes."""
    kind: str = answer.headers.get("content-type", "")
    return answer.is_success and kind.partition(";")[0].strip() == "text/event-stream"


def _is_a_gateways(answer: httpx.Response, call: Call) -> bool:
    """Return whether an answer is of the kind that a gateway gives: what lies between may say 200 with a page of its own."""
    if is_stream(answer):
        return call.silent_s is not None
    if call.answers == "nothing":
        return bool(answer.status_code == 204)
    kind = answer.headers.get("content-type", "").partition(";")[0].strip()
    return bool(kind == KINDS[call.answers] and answer.content)


def _stranger(answer: httpx.Response) -> OutcomeUnknown:
    kind = answer.headers.get("content-type", "no content-type")
    said = f"HTTP {answer.status_code}, {kind}"
    return OutcomeUnknown(
        f"{answer.url.path}: what answered ({said}) is no gateway's answer; is {answer.url.host} a gateway, or "
        "something in between?"
    )


async def read_end(pieces: AsyncIterator[bytes], within_s: float) -> None:
    """Read what is left of a stream, where that comes soon and whole: its connection can be used again."""
    with suppress(TimeoutError, httpx.TransportError):
        async with asyncio.timeout(within_s):
            async for _ in pieces:
                pass


def _of_transport(exc: httpx.TransportError, what: str) -> ServiceError:
    """Return our error for a connection's: what had no connection surely did not happen."""
    said = f"{what}: {str(exc) or type(exc).__name__}"
    unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
    return Unavailable(said) if isinstance(exc, unsent) else OutcomeUnknown(said)
