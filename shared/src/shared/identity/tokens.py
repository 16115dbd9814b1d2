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

from shared.errors import Forbidden
from shared.identity.keys import Key, is_user_key, key_of, make_key, verify
from shared.identity.roles import Permissions
from shared.messages import Credential

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_UNLIMITED = {"subs": -1, "data": -1, "payload": -1}


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


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
    try:
        claims: dict[str, Any] = msgspec.json.decode(_unb64(parts[1]), type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise ValueError(f"not a JWT: {exc}") from exc
    return claims


class Signer(msgspec.Struct, frozen=True):
    """Mints users of one account. Whoever holds it can act as anybody there."""

    account: str
    """Public key of the account."""
    seed: str
    """Seed of the account's signing key."""

    def __repr__(self) -> str:
        """Hide the secret."""
        return f"Signer({self.account})"

    def mint(
        self,
        name: str,
        permissions: Permissions,
        *,
        expires_s: float | None = None,
        by_edge: bool = False,
    ) -> Credential:
        """Return a new user with a key pair of its own.

        Args:
            name: shown by the servers' monitoring and in disconnect events.
            permissions: what it may publish and hear.
            expires_s: seconds for which it is valid; None: for ever.
            by_edge: servers take it only from the client edge, which looks at headers.
        """
        user = make_key("user")
        claims = {
            "type": "user",
            "issuer_account": self.account,
            **_UNLIMITED,
            **permissions.claims(),
        }
        if by_edge:
            claims["proxy_required"] = True
        token = make_token(key_of(self.seed), user.public, name, claims, _end(expires_s))
        return Credential(jwt=token, seed=user.seed)


class WorkerSigner(msgspec.Struct, frozen=True):
    """Mints workers, and nobody else: what its users may do stands in the account's JWT, by pool and name.

    Whoever holds it can act as any worker of any pool: pool-managers.
    """

    account: str
    """Public key of the account."""
    seed: str
    """Seed of the workers' signing key."""

    def __repr__(self) -> str:
        """Hide the secret."""
        return f"WorkerSigner({self.account})"

    def mint(self, pool: str, name: str, *, valid_s: float) -> Credential:
        """Return a new worker with a key pair of its own.

        Args:
            pool: the only pool that it can name.
            name: its pod's name, the only worker as which it can speak.
            valid_s: seconds for which it is valid.
        """
        user = make_key("user")
        return Credential(jwt=self._vouch(user.public, pool, name, valid_s), seed=user.seed)

    def vouch(self, public_key: str, pool: str, name: str, *, valid_s: float) -> str:
        """Return the JWT of a worker that made its own key.

        Args:
            public_key: the key; whoever has its seed can be this worker.
            pool: the only pool that it can name.
            name: its pod's name.
            valid_s: seconds for which it is valid.

        Raises:
            Forbidden: it is no user's key.
        """
        if not is_user_key(public_key):
            raise Forbidden("no public key of a NATS user")
        return self._vouch(public_key, pool, name, valid_s)

    def renew(self, token: str, pool: str, name: str, *, valid_s: float) -> str:
        """Return a JWT for the key of one that this signer minted; the key's seed stays with the worker.

        Args:
            token: the JWT until now; it may have ended.
            pool: its pool.
            name: its name.
            valid_s: seconds for which the new one is valid.

        Raises:
            Forbidden: it is not this signer's, or somebody else's.
        """
        head, _, signature = token.rpartition(".")
        try:
            claims = read_claims(token)
            ours = verify(self.seed, head.encode(), _unb64(signature))
        except ValueError as exc:
            raise Forbidden(f"no credential of a worker: {exc}") from exc
        if not ours:
            raise Forbidden("a credential that another key vouches for")
        if claims["name"] != name or claims["nats"]["tags"] != [f"pool:{pool}"]:
            raise Forbidden(f"a credential of another worker than {name} of {pool}")
        return self._vouch(claims["sub"], pool, name, valid_s)

    def _vouch(self, user: str, pool: str, name: str, valid_s: float) -> str:
        claims = {"type": "user", "issuer_account": self.account, "tags": [f"pool:{pool}"]}
        return make_token(key_of(self.seed), user, name, claims, _end(valid_s))


def _end(valid_s: float | None) -> int | None:
    return None if valid_s is None else int(time.time() + valid_s)


def lifetime(credential: Credential) -> tuple[float, float] | None:
    """Return when a credential was made and when it ends, seconds since 1970; None: it never ends."""
    claims = read_claims(credential.jwt)
    return None if "exp" not in claims else (float(claims["iat"]), float(claims["exp"]))


def inbox_prefix(credential: Credential) -> str:
    """Return the prefix under which this user may hear answers, as its permissions have it."""
    claims = read_claims(credential.jwt)
    rights = claims.get("nats", {})
    if "tags" in rights:  # a worker's rights stand in its account's JWT
        return f"_INBOX_{claims['name']}"
    allowed = rights.get("sub", {}).get("allow", [])
    for subject in allowed:
        if subject.startswith("_INBOX") and subject.endswith(".>"):
            return str(subject[: -len(".>")])
    return "_INBOX"
