"""Who may come in: tokens of tenants, and the credential with which each tenant's requests go on."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from shared.errors import Forbidden, InvalidMessage, ServiceError
from shared.ids import parse_name

TENANTS_MAX = 256
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class TenantAccess(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant."""

    token_sha256s: tuple[Sha256, ...]
    """SHA-256 of each of its tokens, hexadecimal. Several, so that a new one can be given out before the old one goes."""
    credential: str
    """Its NATS credential file."""


class TenantsFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file."""

    tenants: Annotated[dict[str, TenantAccess], Meta(max_length=TENANTS_MAX)]


class Admission:
    """A token that lets in, and whoever came in by it: streams that it opened end with it."""

    def __init__(self, tenant: str) -> None:
        """Let in as `tenant`."""
        self.tenant = tenant
        self.withdrawn = asyncio.Event()
        """It is not in the file any more, or another tenant's."""


class Tenants:
    """The tenants of the file, as it was when it was read last."""

    def __init__(self, path: Path) -> None:
        """Name the file; `refresh` reads it."""
        self._path = path
        self._seen: tuple[int, ...] = ()
        self._by_token: dict[str, Admission] = {}
        self.known: dict[str, TenantAccess] = {}
        self.problem = ""
        """Why the file as it is now is not what holds; empty: it is."""

    def refresh(self) -> bool:
        """Read the file if it has changed; return whether it had.

        What is wrong with it, also that it is gone, is raised once, until it changes again; what was read last holds, and
        `problem` says so. Tokens that are not in it any more are withdrawn.

        Raises:
            Forbidden: it can't be read, or others than its owner may.
            InvalidMessage: it is damaged, or two tenants have the same token.
        """
        try:
            return self._read()
        except ServiceError as exc:
            self.problem = str(exc)
            raise

    def _read(self) -> bool:
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                seen = (status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode)
                text = b"" if seen == self._seen else file.read()
        except OSError as exc:
            if not self._is_new((exc.errno or 0,)):
                return False
            raise Forbidden(f"tenants {self._path}: {exc.strerror or exc}") from exc
        if not self._is_new(seen):
            return False
        if is_open(status.st_mode, ours=status.st_uid == os.geteuid()):
            raise Forbidden(f"{self._path} must be for its owner alone (mode 0600)")
        self.known, by_token = read_tenants(text)
        self._admit(by_token)
        self.problem = ""
        return True

    def _admit(self, by_token: dict[str, str]) -> None:
        """Let in these tokens, SHA-256 -> tenant, and no others from now on."""
        former, self._by_token = self._by_token, {}
        for digest, tenant in by_token.items():
            kept = former.get(digest)
            if kept is None or kept.tenant != tenant:
                kept = Admission(tenant)
            self._by_token[digest] = kept
        for digest, admission in former.items():
            if self._by_token.get(digest) is not admission:
                admission.withdrawn.set()

    def _is_new(self, seen: tuple[int, ...]) -> bool:
        """Note what the file looks like, or why it can't be read; return whether that is another than before."""
        before, self._seen = self._seen, seen
        return seen != before

    def of_token(self, token: str) -> Admission | None:
        """Return what this token lets in, or None."""
        return self._by_token.get(hashlib.sha256(token.encode()).hexdigest())


def is_open(mode: int, *, ours: bool) -> bool:
    """Return whether others than we may read a secret file.

    Args:
        mode: its permissions.
        ours: it is this process' user's. If not, as in a volume of Kubernetes, we read it through its group.
    """
    return bool(mode & (0o077 if ours else 0o037))


def read_tenants(text: bytes) -> tuple[dict[str, TenantAccess], dict[str, str]]:
    """Return tenant -> access, and a token's SHA-256 -> tenant.

    Raises:
        InvalidMessage: damaged, or two tenants have the same token.
    """
    try:
        known = msgspec.json.decode(text, type=TenantsFile).tenants
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise InvalidMessage(f"tenants: {exc}") from exc
    by_token: dict[str, str] = {}
    for tenant, access in known.items():
        parse_name(tenant, "tenant")
        for digest in access.token_sha256s:
            if by_token.setdefault(digest, tenant) != tenant:
                raise InvalidMessage(
                    f"tenants: {tenant} and {by_token[digest]} have the same token"
                )
    return known, by_token
