"""The cluster's root of trust: an operator, and the accounts that it vouches for.

Clients live in an account of their own and meet the rest only through what is exported to them. Without that wall a
client could name any subject as the reply to its publish, the server would put its acknowledgement there, and so
overwrite any session's record (tried: permissions do not cover replies). Behind the wall a reply stays on the clients'
side, where no stream listens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from shared.identity import roles
from shared.identity.keys import Key, make_key
from shared.identity.tokens import Signer, WorkerSigner, make_token

_LIMITS = {
    "subs": -1,
    "data": -1,
    "payload": -1,
    "imports": -1,
    "exports": -1,
    "wildcards": True,
    "conn": -1,
    "leaf": -1,
}
_STORE_LIMITS = {
    "mem_storage": -1,
    "disk_storage": -1,
    "streams": -1,
    "consumer": -1,
    "max_ack_pending": -1,
}

CLIENT_REQUESTS = (
    "task.*.*.*",
    "session.*.*.*",
    "result.*.*.*",
    "object.*.*.*.*",
    "chunk.*.*.*.*",
    "cancel.*.*.*",
    "ask.*.*",
    "tty.*.*.*.*",
)
"""What clients may ask; answers find their way back through the servers."""
CLIENT_EVENTS = ("done.>", "out.>", "shards")
"""What clients may hear."""


class Identity(msgspec.Struct, frozen=True):
    """Keys of one cluster: kept in its state folder, mode 0600."""

    operator: Key
    account: Key
    """Streams, services, workers."""
    clients: Key
    """Clients, behind exports and imports."""
    system: Key
    """The servers' own account: their events and requests."""
    account_signing: Key
    system_signing: Key
    client_signing: Key = msgspec.field(default_factory=lambda: make_key("account"))
    """Vouches for clients. Not under the name that an older version had: its clients did not need the edge."""
    edge: Key = msgspec.field(default_factory=lambda: make_key("account"))
    """Signs the connections that come through the client edge."""
    worker_signing: Key = msgspec.field(default_factory=lambda: make_key("account"))
    """Vouches for workers and nobody else; made where an older version's file lacks it."""

    @property
    def signer(self) -> Signer:
        """Mints services, whatever they may do."""
        return Signer(self.account.public, self.account_signing.seed)

    @property
    def worker_signer(self) -> WorkerSigner:
        """Mints workers."""
        return WorkerSigner(self.account.public, self.worker_signing.seed)

    @property
    def client_signer(self) -> Signer:
        """Mints clients."""
        return Signer(self.clients.public, self.client_signing.seed)

    @property
    def system_signer(self) -> Signer:
        """Mints users of the servers' own account."""
        return Signer(self.system.public, self.system_signing.seed)

    def operator_token(self) -> str:
        """Return the operator's JWT, signed by itself."""
        claims = {"type": "operator", "system_account": self.system.public}
        return make_token(self.operator, self.operator.public, "agent-sandbox", claims, None)

    def account_tokens(self, mappings: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, str]:
        """Return public key -> JWT of all accounts.

        Args:
            mappings: subject mappings of the account that holds the streams.
        """
        return {
            self.account.public: self._token(
                "sandbox",
                self.account,
                self.account_signing,
                {
                    "limits": {**_LIMITS, **_STORE_LIMITS},
                    "signing_keys": [self.account_signing.public, self._worker_scope()],
                    "mappings": dict(mappings),
                    "exports": [_share(subject, "service") for subject in CLIENT_REQUESTS]
                    + [_share(subject, "stream") for subject in CLIENT_EVENTS],
                },
            ),
            self.clients.public: self._token(
                "clients",
                self.clients,
                self.client_signing,
                {
                    "imports": [
                        {**_share(subject, kind), "account": self.account.public}
                        for kind, subjects in (
                            ("service", CLIENT_REQUESTS),
                            ("stream", CLIENT_EVENTS),
                        )
                        for subject in subjects
                    ],
                },
            ),
            self.system.public: self._token("SYS", self.system, self.system_signing, {}),
        }

    def _worker_scope(self) -> dict[str, Any]:
        """What the servers grant to whom the workers' key vouches for, whatever the user's own JWT says."""
        permissions = roles.worker("{{tag(pool)}}", "{{name()}}")
        return {
            "kind": "user_scope",
            "key": self.worker_signing.public,
            "role": "worker",
            "template": {"subs": -1, "data": -1, "payload": -1, **permissions.claims()},
        }

    def _token(self, name: str, key: Key, signing: Key, claims: Mapping[str, Any]) -> str:
        full = {
            "type": "account",
            "limits": _LIMITS,
            "signing_keys": [signing.public],
            **claims,
        }
        return make_token(self.operator, key.public, name, full, None)


def _share(subject: str, kind: str) -> dict[str, str]:
    return {"name": subject, "subject": subject, "type": kind}


def make_identity() -> Identity:
    """Return a new root of trust."""
    return Identity(
        operator=make_key("operator"),
        account=make_key("account"),
        clients=make_key("account"),
        system=make_key("account"),
        account_signing=make_key("account"),
        system_signing=make_key("account"),
    )
