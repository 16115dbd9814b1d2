"""What travels over the bus, as our own types: nothing of the client library reaches a caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from shared.messages import Credential


class Message(msgspec.Struct, frozen=True):
    """A message that was heard, or an answer."""

    subject: str
    data: bytes
    headers: Mapping[str, str]
    reply: str = ""


class Stored(msgspec.Struct, frozen=True):
    """A message as a stream holds it."""

    subject: str
    seq: int
    """Its sequence in the stream."""
    data: bytes
    headers: Mapping[str, str]
    time_ms: int
    """When it was stored: the servers' clock, milliseconds since 1970."""


class Write(msgspec.Struct, frozen=True):
    """One message of an atomic batch."""

    subject: str
    data: bytes
    expected_seq: int | None = None
    """Stream sequence that the subject's last message must have; 0: there must be none; None: whatever."""
    headers: Mapping[str, str] | None = None


class PubAck(msgspec.Struct, frozen=True):
    """The stream's word that a message is stored."""

    stream: str
    seq: int
    duplicate: bool = False
    """The message had been stored before, under the same id."""


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """How to connect to servers that speak TLS. A server that does not is refused: nothing is sent to it."""

    ca_file: str = ""
    """File with certificates of the authorities that we believe, PEM. Empty, as `ca_pem`: the system's."""
    ca_pem: str = ""
    """Such certificates themselves."""
    cert_file: str = ""
    """Our own certificate, PEM, where the servers ask for one."""
    key_file: str = ""
    """Its key, PEM; empty: it stands in `cert_file`."""
    server_name: str = ""
    """Name that their certificate must have; empty: that in the address at which they are reached."""


class Tracer(Protocol):
    """Makes a span of each acknowledged publish (`shared.telemetry.Tracing`)."""

    def publishing(
        self, subject: str, headers: dict[str, str], body_bytes: int
    ) -> AbstractContextManager[None]:
        """Return what surrounds the publish; it may add to `headers`, which are sent."""


NOBODY_S = 1.5


class BusOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to connect."""

    servers: tuple[str, ...]
    name: str
    """Shown by the servers' monitoring and in disconnect events."""
    credential: Credential | Callable[[], Credential] | None = None
    """Who we are. A function is asked at each connect: it returns the newest credential, at once."""
    ping_interval_s: float = 0.5
    """Two unanswered pings and the connection is given up. 0.5 for services and bound workers, 10 for idle workers."""
    inbox_prefix: str = ""
    """Where answers come; empty: the prefix that the credential allows."""
    connect_timeout_s: float = 0.5
    """For one try with one server."""
    pending_bytes_max: int = 8 * 1024 * 1024
    """Unsent bytes above which publishing is refused."""
    nobody_s: float = NOBODY_S
    """How long nobody must listen on a stream's subject until that is believed: a stream that elects its leader looks
    like none at all."""
    tls: Tls | None = None
    """None: plain TCP, unless a server demands TLS; then the system's authorities are believed."""
    tracer: Tracer | None = None
    """None: no spans, and nothing is spent on them."""


Handler = Callable[[Message], None] | Callable[[Message], Awaitable[None]]
"""Takes a message. A plain function runs at once in the reader and must be short; a coroutine function gets a queue."""
