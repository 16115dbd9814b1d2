"""Going over to a second connection: everything is written to one of the two, and heard once, by the one or the other."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import nats.errors
from nats.aio.client import PING_PROTO, PONG_PROTO
from nats.protocol import command
from nats.protocol.parser import Parser

from shared import logs
from shared.bus.transport import Transport
from shared.bus.wire import READ_BYTES, Client
from shared.errors import Forbidden, ServiceError, Unavailable

log = logs.get(__name__)

SPREAD_S = 0.25
"""A second connection may lead to another server: so long until the others know what is heard there, and again so long
until what they have sent to both has come there, too."""
_FAILURES = (OSError, TimeoutError, nats.errors.Error, ValueError)


class _Held(Transport):
    """The old connection while it is not known where the next line goes: reads and ends like it, keeps what is written."""

    def __init__(self, old: Transport) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the library's is untyped
        self._io_reader, self._io_writer = old._io_reader, old._io_writer
        self._lines: list[bytes] = []
        self._released = asyncio.Event()

    def write(self, payload: bytes) -> None:
        self._lines.append(payload)

    def writelines(self, payload: list[bytes]) -> None:
        self._lines.extend(payload)

    async def drain(self) -> None:
        """Hold the flusher: what comes now waits in the client, and counts there."""
        await self._released.wait()

    def release(self, to: Any) -> None:
        """Write what was kept, or (None) forget it: the connection was lost, and its publishers are told so."""
        if to is not None:
            to.writelines(self._lines)
        self._released.set()


class _Twins:
    """Of each message that both connections bring, the second is not handed on."""

    def __init__(self) -> None:
        self._brought: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        """By each side, and not (yet) by the other."""

    def is_second(self, side: int, *message: object) -> bool:
        key, others = hash(message), self._brought[1 - side]
        if others[key] > 0:
            others[key] -= 1
            return True
        self._brought[side][key] += 1
        return False


class _Side:
    """What stands between one connection's parser and the client."""

    def __init__(self, client: Client, transport: Any, parser: Any) -> None:
        self.client, self.transport, self.parser = client, transport, parser
        self.reading: asyncio.Task[None] | None = None
        """Reads for the client and has been told to end."""
        self.speaks = False
        """Whether its pings, pongs and errors are the client's."""
        self._pings = self._pongs = 0
        self._number = 0
        self._twins: _Twins | None = None
        parser.nc = self

    def compare(self, twins: _Twins, number: int) -> None:
        """From now on the other side may bring the same."""
        self._twins, self._number = twins, number

    async def say(self, lines: bytes) -> None:
        """Send lines and a ping; read until all pings of our own are answered.

        Raises:
            OSError: the connection ended.
        """
        self._pings += 1
        self.transport.write(lines + PING_PROTO)
        while self._pongs < self._pings:
            data = await self.transport.read(READ_BYTES)
            if not data:
                raise ConnectionError("the server ended the connection")
            await self.parser.parse(data)

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        heard = self.client._subs.get(sid)
        # A group's message goes to one of its members, and each side is one.
        is_for_all = heard is None or not heard.queue
        if (
            self._twins is not None
            and is_for_all
            and self._twins.is_second(self._number, sid, subject, reply, data, headers)
        ):
            return
        await self.client._process_msg(sid, subject, reply, data, headers)

    async def _process_ping(self) -> None:
        if self.speaks:
            await self.client._process_ping()
        else:
            self.transport.write(PONG_PROTO)

    async def _process_pong(self) -> None:
        if self.speaks:
            await self.client._process_pong()
        else:
            self._pongs += 1

    async def _process_err(self, text: str) -> None:
        if self.speaks or "permissions violation" in text:
            await self.client._process_err(text)
        elif "authorization" in text:
            raise Forbidden(f"the server refuses the credential: {text}")
        else:
            raise ConnectionError(text)

    async def _process_info(self, info: dict[str, Any]) -> None:
        await self.client._process_info(info)


async def move(client: Client, deadline_s: float) -> None:
    """Go over to a new connection, made under the newest credential, without losing anything on either.

    Nothing is written from the last ping of the old connection until its answer: the server has then taken all that went
    there. What we hear is heard on both for a moment. Cancelled before that answer, all goes on by the old one.

    Args:
        client: connected.
        deadline_s: for each of: connecting, going over, leaving one of the two.

    Raises:
        Forbidden: the servers refuse the credential; the old connection goes on.
        Unavailable: no second connection; the old one goes on, if it is not lost as well.
    """
    old = client._transport
    assert isinstance(old, Transport)
    new = _Side(client, Transport(), Parser())  # type: ignore[no-untyped-call]  # the library's is untyped
    try:
        async with asyncio.timeout(deadline_s):
            info = await _introduce(client, new)
            await _settle(client, old, deadline_s)
    except _FAILURES as exc:
        new.transport.abort()
        raise Unavailable(f"no second connection: {type(exc).__name__} {exc}") from exc
    except BaseException:
        new.transport.abort()
        raise
    former = _Side(client, old, client._ps)
    former.speaks = True
    try:
        await _go_over(client, former, new, deadline_s)
    except _FAILURES as exc:
        await _part(former, new, deadline_s)
        raise Unavailable(f"no second connection: {type(exc).__name__} {exc}") from exc
    except BaseException:
        _end(former, new)
        raise
    spread_s = 0.0 if info.get("server_id") == client._server_info.get("server_id") else SPREAD_S
    client._server_info, client._client_id = info, info.get("client_id")
    client._max_payload = info.get("max_payload", client._max_payload)
    await _part(new, former, deadline_s, spread_s)


async def _introduce(client: Client, new: _Side) -> dict[str, Any]:
    """Connect and say who we are; return what the server says of itself."""
    server, transport = client._current_server, new.transport
    assert server is not None
    timeout_s = client.options["connect_timeout"]
    await transport.connect(server.uri, READ_BYTES, timeout_s)
    line: bytes = await transport.readline()
    info: dict[str, Any] = json.loads(line.removeprefix(b"INFO "))
    if info.get("tls_required"):
        named = client.options.get("tls_hostname")
        hostname = named or server.tls_name or server.uri.hostname or ""
        await transport.connect_tls(hostname, client.ssl_context, READ_BYTES, timeout_s)
    elif "tls" in client.options:
        raise Unavailable("TLS is wanted, the server speaks none")
    former, client._server_info = client._server_info, info  # the nonce to sign is its own
    try:
        connect = client._connect_command()
    finally:
        client._server_info = former
    await new.say(connect)
    return info


async def _settle(client: Client, old: Transport, deadline_s: float) -> None:
    """Wait until what is unsent is taken: nothing is then held for longer than a round trip, and its bound stays."""
    is_answered = await client.ping(deadline_s)
    if client._transport is not old or not client.usable:
        raise ConnectionError("the present one was lost meanwhile")
    if not is_answered:
        raise ConnectionError("the present one is not answered")


async def _go_over(client: Client, former: _Side, new: _Side, deadline_s: float) -> None:
    """Hold all writes until the old connection's are taken and the new one hears everything; then write there.

    Raises:
        OSError, TimeoutError, Error: one of the two failed; what was held goes to the old one, if it is not lost.
    """
    old = former.transport
    taken: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    await client._send_ping(taken)
    held, twins = _Held(old), _Twins()
    former.compare(twins, 0)
    new.compare(twins, 1)
    old.writelines(client._pending)
    client._pending, client._pending_data_size = [], 0
    client._transport = held
    goes_to = old
    try:
        async with asyncio.timeout(deadline_s):
            await new.say(client.interest())
            await taken
        if client._transport is held and client.usable:
            goes_to = new.transport
    finally:
        if client._transport is not held or not client.is_connected:
            goes_to = None  # lost meanwhile: the client makes another
        else:
            client._transport = goes_to
        held.release(goes_to)
    if goes_to is not new.transport:
        raise ConnectionError("the connection was lost while another took its place")
    former.reading, client._ps = client._reading_task, new.parser
    former.speaks, new.speaks = False, True
    client._reading_task = asyncio.create_task(client._read_loop())
    if former.reading is not None:
        former.reading.cancel()


async def _part(stays: _Side, goes: _Side, deadline_s: float, spread_s: float = 0.0) -> None:
    """Leave one of the two. Until the other has brought what both were given, what comes twice is known."""
    try:
        await asyncio.sleep(spread_s)
        try:
            async with asyncio.timeout(deadline_s):
                await _leave(goes)
        except (*_FAILURES, ServiceError) as exc:
            log.warning("bus.connection_cut", error=f"{type(exc).__name__} {exc}")
        await stays.client.ping(deadline_s)
        # What a third server has sent to both may have the longer way to the one that stays.
        await asyncio.sleep(spread_s)
    finally:
        _end(stays, goes)


def _end(stays: _Side, goes: _Side) -> None:
    goes.transport.abort()
    stays.parser.nc = stays.client


async def _leave(side: _Side) -> None:
    """Hear what the server has already given a connection, and no more: a group's message goes to one side only."""
    if side.reading is not None:
        await asyncio.wait({side.reading})
    sids = [*side.client._subs, *side.client._once]
    await side.say(b"".join(command.unsub_cmd(sid, 0) for sid in sids))
