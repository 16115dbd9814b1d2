"""JWTs of NATS' operator mode: an operator vouches for accounts, an account (or its signing key) for users.

A server needs the operator's and the accounts' JWTs only; a user's is shown by the client when it connects. So a new
worker gets a credential of its own without any change on the servers.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from shared.identity.keys import Key, key_of, make_key
from shared.identity.roles import Permissions
from shared.messages import Credential

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_UNLIMITED = {"subs": -1, "data": -1, "payload": -1}


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def make_token(
    issuer: Key, subject: str, name: str, claims: Mapping[str, Any], expires_at: int | None
) -> str:
    """Return a signed JWT.

    Args:
        issuer: key that vouches.
        subject: public key that it vouches for.
        name: for people.
        claims: the `nats` part.
        expires_at: seconds since 1970; None: never.
    """
    body: dict[str, Any] = {
        "iat": int(time.time()),
        "iss": issuer.public,
        "name": name,
        "sub": subject,
        "nats": {**claims, "version": 2},
    }
    if expires_at is not None:
        body["exp"] = expires_at
    # The id is a digest of the claims, as in NATS' own tools.
    digest = hashlib.new("sha512_256", msgspec.json.encode(body)).digest()
    body["jti"] = base64.b32encode(digest).rstrip(b"=").decode()
    signed = f"{_b64(msgspec.json.encode(_HEADER))}.{_b64(msgspec.json.encode(body))}"
    return f"{signed}.{_b64(issuer.sign(signed.encode()))}"


def read_claims(token: str) -> dict[str, Any]:
    """Return the claims of a JWT without checking its signature: the servers do that.

    Raises:
        ValueError: not a JWT.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("not a JWT: three parts expected")
    body = parts[1] + "=" * (-len(parts[1]) % 4)
    try:
        claims: dict[str, Any] = msgspec.json.decode(
            base64.urlsafe_b64decode(body), type=dict[str, Any]
        )
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise ValueError(f"not a JWT: {exc}") from exc
    return claims


class Signer(msgspec.Struct, frozen=True):
    """Mints users of one account. Whoever holds it can act as anybody there: pool-managers and the admin."""

    account: str
    """Public key of the account."""
    seed: str
    """Seed of the account's signing key."""

    def __repr__(self) -> str:
        """Hide the secret."""
        return f"Signer({self.account})"

    def mint(
        self, name: str, permissions: Permissions, *, expires_s: float | None = None
    ) -> Credential:
        """Return a new user with a key pair of its own.

        Args:
            name: shown by the servers' monitoring and in disconnect events.
            permissions: what it may publish and hear.
            expires_s: seconds for which it is valid; None: for ever.
        """
        user = make_key("user")
        claims = {
            "type": "user",
            "issuer_account": self.account,
            **_UNLIMITED,
            **permissions.claims(),
        }
        expires_at = None if expires_s is None else int(time.time() + expires_s)
        token = make_token(key_of(self.seed), user.public, name, claims, expires_at)
        return Credential(jwt=token, seed=user.seed)


def expires_at(credential: Credential) -> float | None:
    """Return when a credential ends, seconds since 1970; None: never."""
    end = read_claims(credential.jwt).get("exp")
    return None if end is None else float(end)


def inbox_prefix(credential: Credential) -> str:
    """Return the prefix under which this user may hear answers, as its permissions have it."""
    allowed = read_claims(credential.jwt).get("nats", {}).get("sub", {}).get("allow", [])
    for subject in allowed:
        if subject.startswith("_INBOX") and subject.endswith(".>"):
            return str(subject[: -len(".>")])
    return "_INBOX"
