"""Who we say we are, at each connect."""

from __future__ import annotations

from collections.abc import Callable

from shared import identity
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
