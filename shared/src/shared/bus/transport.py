"""The socket under the connection, and what is written to it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

from nats.aio.transport import TcpTransport
from nats.protocol import command

from shared.bus.types import Tls
from shared.errors import Rejected

CLOSE_WAIT_S = 0.5
_HEADER_LINE = b"NATS/1.0\r\n"
_UNFIT_FOR_SUBJECTS = frozenset(" \t\r\n")


class Transport(TcpTransport):
    """A socket that closes within a bound: with a full buffer and a hung server the library's never does (#671)."""

    async def wait_closed(self) -> None:
        """Wait until the socket is closed, at most CLOSE_WAIT_S; then cut it."""
        try:
            async with asyncio.timeout(CLOSE_WAIT_S):
                await super().wait_closed()  # type: ignore[no-untyped-call]  # the library's
        except TimeoutError:
            self.abort()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Somebody who waited before was cancelled, or waited too long, and with that the future which all wait for.
            self.abort()

    async def connect_tls(self, *arguments: Any, **options: Any) -> None:
        """Encrypt. The library makes the new protocol itself, and does not tell it of its connection: its reader could not
        slow a server down, and asyncio would complain at the end, since it knows of no TLS below.
        """
        await super().connect_tls(*arguments, **options)
        assert self._io_writer is not None
        transport = self._io_writer.transport
        protocol: asyncio.BaseProtocol | None = transport.get_protocol()
        if protocol is not None:  # the server may have ended it already
            protocol.connection_made(transport)

    def abort(self) -> None:
        """Cut the connection; bytes not sent yet are dropped."""
        if self._io_writer is not None:
            self._io_writer.transport.abort()


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return how the library is to speak TLS.

    Raises:
        Rejected: a file cannot be read, or holds no certificate or key.
    """
    try:
        context = ssl.create_default_context(cafile=tls.ca_file or None, cadata=tls.ca_pem or None)
        if tls.cert_file:
            context.load_cert_chain(tls.cert_file, tls.key_file or None)
    except OSError as exc:  # an SSLError is one, too
        files = ", ".join(filter(None, (tls.ca_file, tls.cert_file, tls.key_file)))
        raise Rejected(f"TLS with {files}: {exc}") from exc
    return context


def publish_line(
    subject: str, data: bytes, reply: str, headers: Mapping[str, str] | None
) -> tuple[bytes, int]:
    """Return a publish as it stands on the wire, and the size that counts against the servers' limit, bytes.

    Raises:
        Rejected: not a subject or header.
    """
    check_subject(subject)
    check_subject(reply or subject)
    if not headers:
        return command.pub_cmd(subject, reply, data), len(data)
    block = header_block(headers)
    return command.hpub_cmd(subject, reply, block, data), len(block) + len(data)


def check_subject(subject: str) -> None:
    """Refuse what would end the protocol's line: the rest would be read as commands.

    Raises:
        Rejected: not a subject.
    """
    if not subject or not _UNFIT_FOR_SUBJECTS.isdisjoint(subject):
        raise Rejected(f"not a subject: {subject[:100]!r}")


def header_block(headers: Mapping[str, str]) -> bytearray:
    """Return headers as they stand on the wire.

    Raises:
        Rejected: a name or value that would end its line.
    """
    block = bytearray(_HEADER_LINE)
    for name, value in headers.items():
        if not name.isascii() or not name.isprintable() or ":" in name or " " in name or not name:
            raise Rejected(f"not a header's name: {name[:100]!r}")
        if "\r" in value or "\n" in value:
            raise Rejected(f"header {name}: a line end in its value")
        block += f"{name}: {value}\r\n".encode()
    block += b"\r\n"
    return block
