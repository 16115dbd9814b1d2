"""Two sockets for each client: what it sends goes through the filter, what the server says goes back as it is."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec

from client_edge.adapters import tls
from client_edge.adapters.side import Side
from client_edge.adapters.tenants import tenant_of
from client_edge.core.filter import ClientHalf
from client_edge.core.greeting import Greeting
from client_edge.core.shares import Shares
from shared import logs
from shared.errors import InvalidMessage
from shared.identity import Key, proxy_signature

log = logs.get(__name__)

DIAL_S = 1.0
"""A server that has not said who it is by then hangs: the client had better try another edge."""
LOG_EVERY_S = 5.0
"""Of each thing that clients do, one line in this time: they must not fill the disk."""


class _Info(msgspec.Struct):
    max_payload: int
    nonce: str = ""


_infos = msgspec.json.Decoder(_Info)


class Relay:
    """All connections of one edge."""

    def __init__(
        self,
        place: tuple[str, int],
        key: Key,
        connections_max: int,
        shares: Shares,
        sides: tls.Sides | None = None,
    ) -> None:
        """Lead to the server at `place`; sign with `key`. No tenant gets more than its share. Encrypt where `sides` say how."""
        self.place, self.key, self.sides = place, key, sides
        self.connections_max, self.shares = connections_max, shares
        self.open: set[ClientSide] = set()
        self.dialling: set[asyncio.Task[None]] = set()
        self.accepted = self.messages_refused = 0
        self.bytes_passed: Counter[str] = Counter({"in": 0, "out": 0})
        self.refused: Counter[str] = Counter()
        self._unsaid: Counter[str] = Counter()
        self._quiet_until: dict[str, float] = {}

    def note(self, event: str, detail: str = "", *, count: int = 1) -> None:
        """Log what clients did, and how often since it was logged last."""
        self._unsaid[event] += count
        now = asyncio.get_running_loop().time()
        if now >= self._quiet_until.get(event, 0.0):
            self._quiet_until[event] = now + LOG_EVERY_S
            log.warning(event, count=self._unsaid.pop(event), detail=detail)

    def refuse(self, side: ClientSide, event: str, detail: str) -> None:
        """Cut a connection, for the reason that the event names."""
        self.refused[event] += 1
        self.note(event, detail)
        side.abort()

    def turn_away(self, side: ClientSide, event: str, why: str) -> None:
        """End a connection and tell its client why, in the words of the protocol."""
        self.refused[event] += 1
        self.note(event, f"{side.tenant}: {why}")
        if side.transport is not None:
            side.transport.write(f"-ERR '{why}'\r\n".encode())
        side.end()
        if side.peer is not None:
            side.peer.abort()

    @property
    def connections(self) -> int:
        """Clients that are here."""
        return len(self.open)

    @property
    def half_sent_bytes(self) -> int:
        """Bytes held of messages of which a part is here only."""
        return sum(side.half.held_bytes for side in self.open if side.half is not None)

    def accept(self) -> ClientSide:
        """Return what takes the next client."""
        self.accepted += 1
        return ClientSide(self)

    def abort(self) -> None:
        """Cut all connections: their clients go to another edge."""
        for side in list(self.open):
            side.abort()


class ClientSide(Side):
    """A client's connection."""

    def __init__(self, relay: Relay) -> None:
        """Belong to `relay`."""
        super().__init__()
        self._relay = relay
        self.half: ClientHalf | None = None
        self.tenant = ""
        """Whose it says that it is; empty: nobody's."""
        self._counted: str | None = None
        """Tenant under which it is counted, once a server has taken its credential."""
        self._held_bytes = 0
        self._token: str | None = None
        self._early = b""

    def hear(self, half: ClientHalf) -> None:
        """Hear the client from now on."""
        assert self.transport is not None
        self.half = half
        early, self._early = self._early, b""
        if early:
            self.data_received(early)
        self.transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Dial the server; the client is heard once that has said who it is."""
        super().connection_made(transport)
        assert self.transport is not None
        if len(self._relay.open) >= self._relay.connections_max:
            self._relay.refuse(self, "client.turned_away", f"{len(self._relay.open)} are here")
            return
        self._relay.open.add(self)
        self.transport.pause_reading()
        dialling = asyncio.create_task(self._dial())
        self._relay.dialling.add(dialling)
        dialling.add_done_callback(self._relay.dialling.discard)

    async def _dial(self) -> None:
        relay = self._relay
        self.peer = server = _ServerSide(self, relay)
        try:
            async with asyncio.timeout(DIAL_S):
                if relay.sides is None:
                    await asyncio.get_running_loop().create_connection(lambda: server, *relay.place)
                    await server.greeted.wait()
                    return
                dialled, line = await tls.dial(relay.place, server, relay.sides.to_server)
                server.connection_made(dialled)
        except (OSError, InvalidMessage) as exc:  # a timeout, too
            relay.refuse(self, "server.not_reached", str(exc) or f"no word within {DIAL_S} s")
            server.abort()
        else:
            await self._encrypt(server, line, relay.sides)

    async def _encrypt(self, server: _ServerSide, line: bytes, sides: tls.Sides) -> None:
        """Shake hands with the client; only then it is heard."""
        assert self.transport is not None
        try:
            self.transport = await tls.welcome(self.transport, self, sides.to_clients, line)
            server.greet(line)
        except (OSError, InvalidMessage) as exc:
            self._relay.refuse(self, "client.not_encrypted", str(exc))
            server.abort()

    def data_received(self, data: bytes) -> None:
        """Let through what the filter leaves."""
        if self.half is None:  # right behind the handshake, before anybody could hold it back
            self._early += data
            return
        assert self.peer is not None
        assert self.peer.transport is not None
        refused = self.half.refused
        try:
            passed = self.half.feed(data)
        except InvalidMessage as exc:
            self._relay.refuse(self, "client.broken", str(exc))
            return
        if new := self.half.refused - refused:
            self._relay.messages_refused += new
            self._relay.note("message.refused", count=new)
        if self.half.token is not None and not self._is_one(self.half.token):
            return
        if passed:
            self._relay.bytes_passed["in"] += len(passed)
            self.peer.transport.write(passed)
        if not self._hold(self.half.held_bytes):
            bound = self._relay.shares.half_sent_bytes_max
            why = f"more than {bound} bytes of half-sent messages of one tenant"
            self._relay.turn_away(self, "tenant.half_sent", why)

    def _is_one(self, token: str) -> bool:
        """Take note of whose it is; a later credential, that renews the first, must be of the same tenant."""
        tenant = self.tenant if token == self._token else tenant_of(token)
        if self.tenant and tenant != self.tenant:
            self._relay.refuse(self, "client.broken", "a credential of another tenant")
            return False
        self._token, self.tenant = token, tenant
        return True

    def _hold(self, held_bytes: int) -> bool:
        """Count what is held of half-sent messages; return whether the tenant may have so much."""
        more, self._held_bytes = held_bytes - self._held_bytes, held_bytes
        return self._relay.shares.hold(self._counted or "", more)

    def admit(self) -> bool:
        """The server has taken the credential: count the connection; False where its tenant has too many."""
        if self._counted is not None:
            return True
        shares, held_bytes = self._relay.shares, self._held_bytes
        if not shares.enter(self.tenant):
            why = f"more than {shares.connections_max} connections of one tenant at this edge"
            self._relay.turn_away(self, "tenant.turned_away", why)
            return False
        self._hold(0)
        self._counted = self.tenant
        self._hold(held_bytes)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._relay.open.discard(self)
        self._hold(0)
        if self._counted is not None:
            self._relay.shares.leave(self._counted)
            self._counted = None
        super().connection_lost(exc)


class _ServerSide(Side):
    """The connection to the server for one client."""

    def __init__(self, client: ClientSide, relay: Relay) -> None:
        super().__init__()
        self._client, self.peer, self._key = client, client, relay.key
        self._bytes_passed = relay.bytes_passed
        self._greeting = Greeting()
        self.greeted = asyncio.Event()
        """Set when the server has said who it is, or never will."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._client.transport is None or self._client.transport.is_closing():
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.greeted.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        client: Any = self._client.transport
        greeting = self._greeting
        if greeting.known:
            self._bytes_passed["out"] += len(data)
            client.write(data)
            return
        try:
            half = self._client.half
            passed = greeting.feed(data, own_ping=half is not None and half.own_ping)
            if half is None and greeting.info is not None:
                self._client.hear(self._half(greeting.info))
        except InvalidMessage as exc:
            log.warning("server.strange", error=str(exc))
            self._client.abort()
            return
        finally:
            if greeting.info is not None:
                self.greeted.set()
        if not greeting.known or self._client.admit():
            client.write(passed)

    def greet(self, line: bytes) -> None:
        """Take the server's first line, which the client has heard already.

        Raises:
            InvalidMessage: that is no server.
        """
        self._greeting.feed(line, own_ping=False)
        self.greeted.set()
        self._client.hear(self._half(line.rstrip()))

    def _half(self, line: bytes) -> ClientHalf:
        """Return the filter for what the client may say to this server.

        Raises:
            InvalidMessage: that is no server.
        """
        try:
            info = _infos.decode(line.removeprefix(b"INFO "))
        except (msgspec.DecodeError, msgspec.ValidationError) as exc:
            raise InvalidMessage(str(exc)) from exc
        return ClientHalf(info.max_payload, proxy_signature(self._key, info.nonce))
