"""Who we say we are, at each connect."""

from __future__ import annotations

from collections.abc import Callable

from shared import identity
from shared.bus.wire import Client
from shared.messages import Credential


class Shown:
    """The credential that the servers are shown: the newest at each connect."""

    def __init__(self, source: Credential | Callable[[], Credential] | None) -> None:
        """Use a credential, or a function that returns the newest; None: servers that ask for none."""
        self.source = source
        self._signed: Credential | None = None

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

    async def renew(self, client: Client, credential: Credential | None, timeout_s: float) -> bool:
        """Show a newer credential (None: the source's) on the present connection; return whether it was taken.

        A server checks a further CONNECT like the first, and counts the new end; it drops all interest, which follows in
        the same breath. Refused, it costs a reconnect, which is made under the newest credential as well.
        """
        if credential is not None:
            self.source = credential
        if not client.usable:
            return False
        client._queue_line(client._connect_command() + client.interest())
        return await client.ping(timeout_s)
