"""A client's connection: where it goes, whose it is, and what its end means for the tasks that are waited for."""

from __future__ import annotations

import asyncio
import os
import weakref
from types import TracebackType
from typing import Self

from agent_sandbox.access import Access, ClientOptions, find_access
from agent_sandbox.orders import Order
from agent_sandbox.over_nats import NatsTransport
from agent_sandbox.running import RunningTask
from agent_sandbox.transport import Transport
from agent_sandbox.turns import PublishTurns
from shared.bus import Bus


class Connected:
    """What a client is connected by; `Client` says what can be done with it."""

    def __init__(self, options: ClientOptions | None = None) -> None:
        """Connect nowhere yet: `async with` does.

        Args:
            options: where to connect; None: `$AGENT_SANDBOX_SERVERS` with `$AGENT_SANDBOX_CREDENTIAL` or
                `$AGENT_SANDBOX_TOKEN`, else the default state folder.
        """
        self.options = options or ClientOptions()
        self._transport: Transport | None = None
        self._turns = PublishTurns()
        self._owner: tuple[int, asyncio.AbstractEventLoop] | None = None
        self._watched: weakref.WeakSet[RunningTask] = weakref.WeakSet()

    def __repr__(self) -> str:
        """Say where it connects, without what is secret."""
        return f"{type(self).__name__}({self.options!r})"

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            Rejected: no cluster in the state folder, no credential file.
            Forbidden: the servers refuse the credential, the gateways the token.
            Unavailable: no server or gateway could be reached.
        """
        given = self.options
        access = await asyncio.to_thread(find_access, given, dict(os.environ))
        self._transport = await _connect(access, given)
        self._owner = (os.getpid(), asyncio.get_running_loop())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection. Tasks go on; whoever still waits for one is told so (`NoResultYet`)."""
        transport, self._transport = self._transport, None
        if transport is None or not self._is_ours():
            return
        watched = list(self._watched)
        for running in watched:
            running.abandon("the client was closed")
        try:
            said = await asyncio.gather(
                *(running.forget() for running in watched), return_exceptions=True
            )
        finally:
            await transport.close()
        for error in said:
            if error is not None:
                raise error

    @property
    def transport(self) -> Transport:
        """The way to the system.

        Raises:
            RuntimeError: the client is not entered; or in another process or event loop than this.
        """
        if self._transport is None:
            raise RuntimeError("use the client in `async with Client() as client:`")
        if not self._is_ours():
            raise RuntimeError(
                "this client was entered in another process or event loop: make one in each, or use `SyncClient`, "
                "which all threads of a process may share"
            )
        return self._transport

    @property
    def bus(self) -> Bus:
        """The connection to NATS, for subjects that this client has no word for.

        Raises:
            RuntimeError: the client is not entered, or goes through a gateway.
        """
        transport = self.transport
        if isinstance(transport, NatsTransport):
            return transport.bus
        raise RuntimeError("a client that goes through a gateway has no connection to NATS")

    async def publish_order(self, order: Order) -> RunningTask:
        """Publish what is put together, and return it as soon as it is accepted.

        Raises:
            ServiceError: as `Client.publish`.
        """
        transport = self.transport
        running = await self._turns.start(transport, order, deadline_s=self.options.publish_s)
        self._watched.add(running)
        return running

    def _is_ours(self) -> bool:
        """Return whether we run where the connection is alive: sockets and loop are not shared across a fork."""
        if self._owner is None:  # put together by hand, without `async with`
            return True
        pid, loop = self._owner
        return pid == os.getpid() and loop is asyncio.get_running_loop()


async def _connect(access: Access, options: ClientOptions) -> Transport:
    if not access.is_http:
        return await NatsTransport.connect(access, options.tenant, deadline_s=options.connect_s)
    from agent_sandbox.over_http import HttpTransport  # noqa: PLC0415 - 0.2 s that only this way needs

    return await HttpTransport.connect(access, deadline_s=options.connect_s)
