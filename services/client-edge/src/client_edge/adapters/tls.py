"""TLS on both sides of an edge: clients see the servers' certificate, and the server proves that it is one.

A NATS server says who it is before the handshake, and so does the edge: libraries wait for that line.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import NamedTuple

from shared.errors import InvalidMessage, Rejected

LINE_BYTES_MAX = 32 * 1024
HANDSHAKE_S = 5.0
"""For a client's handshake: it may be far away."""


class Sides(NamedTuple):
    """How the edge speaks TLS."""

    to_server: ssl.SSLContext
    to_clients: ssl.SSLContext


def read_sides(ca_file: str, cert_file: str, key_file: str) -> Sides:
    """Return what the files say.

    Raises:
        Rejected: one of them can't be read, or is no such thing.
    """
    try:
        to_server = ssl.create_default_context(cafile=ca_file)
        to_clients = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        to_clients.load_cert_chain(cert_file, key_file)
    except OSError as exc:  # an SSLError is one, too
        raise Rejected(f"TLS with {ca_file}, {cert_file}, {key_file}: {exc}") from exc
    return Sides(to_server, to_clients)


class _FirstLine(asyncio.Protocol):
    """Takes a server's first line, before anything is encrypted."""

    def __init__(self) -> None:
        self.line: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._said = b""

    def data_received(self, data: bytes) -> None:
        self._said += data
        if self.line.done():
            return
        if self._said.endswith(b"\r\n"):
            self.line.set_result(self._said)
        elif b"\n" in self._said or len(self._said) > LINE_BYTES_MAX:
            self.line.set_exception(InvalidMessage("the server says more than who it is"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.line.done():
            self.line.set_exception(ConnectionResetError("the server has closed the connection"))


async def dial(
    place: tuple[str, int], protocol: asyncio.Protocol, side: ssl.SSLContext
) -> tuple[asyncio.Transport, bytes]:
    """Connect to a server; return the encrypted transport, which belongs to `protocol`, and the server's first line.

    Raises:
        OSError: it does not answer, or does not prove who it is.
        InvalidMessage: that is no server.
    """
    loop = asyncio.get_running_loop()
    plain, first = await loop.create_connection(_FirstLine, *place)
    try:
        line = await first.line
        transport = await loop.start_tls(plain, protocol, side, server_hostname=place[0])
    except BaseException:
        plain.abort()
        raise
    if transport is None:
        raise ConnectionResetError("the server has closed the connection")
    return transport, line


async def welcome(
    plain: asyncio.Transport, protocol: asyncio.Protocol, side: ssl.SSLContext, line: bytes
) -> asyncio.Transport:
    """Say the server's first line to a client, then encrypt; return the new transport, which belongs to `protocol`.

    Raises:
        OSError: it does not shake hands, or not in time.
    """
    plain.write(line)
    transport = await asyncio.get_running_loop().start_tls(
        plain, protocol, side, server_side=True, ssl_handshake_timeout=HANDSHAKE_S
    )
    if transport is None:
        raise ConnectionResetError("the client is gone")
    return transport
