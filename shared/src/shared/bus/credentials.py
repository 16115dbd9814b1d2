"""Who we say we are, at each connect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shared import identity, logs
from shared.bus.move import move
from shared.bus.wire import Client
from shared.errors import Unavailable
from shared.messages import Credential

log = logs.get(__name__)

MOVE_S = 1.0
MOVES_MAX = 3
MOVE_PAUSE_S = 0.25
RENEW_S = 5.0
"""For the reconnect that is under way, where there is no connection to go over from."""


class Shown:
    """The credential that the servers are shown: the newest at each connect."""

    def __init__(self, source: Credential | Callable[[], Credential] | None) -> None:
        """Use a credential, or a function that returns the newest; None: servers that ask for none."""
        self.source = source
        self._signed: Credential | None = None
        self._renewing = asyncio.Lock()
        self._renewals: set[asyncio.Task[None]] = set()
        self._ended = False

    def current(self) -> Credential | None:
        """Return the newest credential."""
        return self.source() if callable(self.source) else self.source

    def sign(self, nonce: str) -> bytes:
        """Sign the server's nonce. The library asks for this first, then for the token: both of one credential."""
        self._signed = self.current()
        assert self._signed is not None
        return identity.sign_nonce(self._signed.seed, nonce)

    def token(self) -> bytes:
        """Return the JWT of the credential that signed."""
        assert self._signed is not None
        return self._signed.jwt.encode()

    async def renew(
        self,
        client: Client,
        credential: Credential | None,
        wait_up: Callable[[float], Awaitable[None]],
    ) -> None:
        """Go over to a connection under a newer credential (None: the source's).

        Once begun it comes to its end, also where the caller is cancelled: given up at any moment, some of what both
        connections hear would be lost. Only `end` ends it.

        Raises:
            Forbidden: the servers refuse it.
            Unavailable: no connection under it; one that is left goes on, and the next is made under it.
        """
        if credential is not None:
            self.source = credential
        if self._ended:
            raise Unavailable("the connection is closed")
        renewal = asyncio.create_task(self._renew(client, wait_up), name="bus-renewal")
        self._renewals.add(renewal)
        renewal.add_done_callback(self._forget)
        await asyncio.wait({renewal})
        if renewal.cancelled():
            raise Unavailable("the connection was closed")
        renewal.result()

    def _forget(self, renewal: asyncio.Task[None]) -> None:
        self._renewals.discard(renewal)
        if not renewal.cancelled() and (exc := renewal.exception()) is not None:
            log.info("bus.not_renewed", error=f"{type(exc).__name__} {exc}")

    async def end(self, deadline_s: float) -> None:
        """Give up what is under way: what is not sent yet goes by the connection that there was before."""
        self._ended = True
        for renewal in self._renewals:
            renewal.cancel()
        if self._renewals:
            await asyncio.wait(self._renewals, timeout=deadline_s)

    async def _renew(self, client: Client, wait_up: Callable[[float], Awaitable[None]]) -> None:
        async with self._renewing:
            for tries_left in reversed(range(MOVES_MAX)):
                if not client.usable:
                    await wait_up(RENEW_S)
                    if self._signed == self.current():
                        return
                    # The reconnect had shown the former one before this one came.
                try:
                    await move(client, MOVE_S)
                except Unavailable as exc:
                    log.info("bus.not_moved", name=client.options["name"], error=str(exc))
                    if not tries_left:
                        raise
                else:
                    return
                await asyncio.sleep(MOVE_PAUSE_S)
