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

        Raises:
            Forbidden: the servers refuse it.
            Unavailable: no connection under it; one that is left goes on, and the next is made under it.
        """
        if credential is not None:
            self.source = credential
        async with self._renewing:
            for tries_left in reversed(range(MOVES_MAX)):
                if not client.usable:
                    await wait_up(RENEW_S)
                    return
                try:
                    await move(client, MOVE_S)
                except Unavailable as exc:
                    log.info("bus.not_moved", name=client.options["name"], error=str(exc))
                    if not tries_left:
                        raise
                else:
                    return
                await asyncio.sleep(MOVE_PAUSE_S)
