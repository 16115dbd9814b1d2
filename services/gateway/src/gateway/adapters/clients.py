"""One client of the system for each tenant, opened when it is first needed: a tenant's requests use its own rights."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent_sandbox import Client, ClientOptions
from gateway.adapters.tenants import TenantAccess, Tenants
from shared import logs
from shared.errors import ErrorInfo, Forbidden, Rejected, ServiceError, Unavailable, error_of

log = logs.get(__name__)

CONNECT_S = 5.0
CLOSE_S = 2.0


class TenantClient:
    """A tenant's client: opened once, closed when the tenant is gone and nobody uses it any more."""

    def __init__(
        self, tenant: str, access: TenantAccess, servers: tuple[str, ...], ca: Path | None = None
    ) -> None:
        """Open nothing yet."""
        self.tenant, self.access = tenant, access
        self._client = Client(
            ClientOptions(
                servers=servers,
                credential=Path(access.credential),
                tenant=tenant,
                ca=ca,
                connect_s=CONNECT_S,
            )
        )
        self._opening = asyncio.Lock()
        self._is_open = False
        self._failed: tuple[float, ErrorInfo] | None = None
        self.users = 0

    async def open(self) -> Client:
        """Return the connected client.

        Raises:
            ServiceError: as `Client.__aenter__`, to all who waited for the same try; the next request tries again.
        """
        asked_at = time.monotonic()
        async with self._opening:
            if self._is_open:
                return self._client
            if self._failed is not None and self._failed[0] >= asked_at:
                # Not one try after another, for all who wait.
                raise error_of(self._failed[1])
            try:
                await self._enter()
            except ServiceError as exc:
                self._failed = (time.monotonic(), exc.info())
                raise
            self._is_open, self._failed = True, None
        return self._client

    async def _enter(self) -> None:
        try:
            await self._client.__aenter__()
        except Rejected as exc:
            log.warning("credential.unusable", tenant=self.tenant, error=str(exc))
            # Where its file is, and why it can't be read, is no business of who asks.
            said = "the tenant's credential can't be used; the gateway's log says why"
            raise Forbidden(said) if isinstance(exc, Forbidden) else Unavailable(said) from exc

    async def close(self) -> None:
        """Close it; what still waits in it ends with an error."""
        async with self._opening:
            if self._is_open:
                self._is_open = False
                await self._client.__aexit__(None, None, None)


class Clients:
    """The clients of all tenants that came in."""

    def __init__(self, tenants: Tenants, servers: tuple[str, ...], ca: Path | None = None) -> None:
        """Open nothing yet."""
        self._tenants = tenants
        self._servers, self._ca = servers, ca
        self._open: dict[str, TenantClient] = {}

    @asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[TenantClient]:
        """Lend a tenant's client for one request.

        Raises:
            Forbidden: there is no such tenant any more.
        """
        access = self._tenants.known.get(tenant)
        if access is None:
            raise Forbidden(f"tenant {tenant} is not known any more")
        lent = self._open.get(tenant)
        if lent is None or lent.access.credential != access.credential:
            former, lent = lent, TenantClient(tenant, access, self._servers, self._ca)
            self._open[tenant] = lent
            if former is not None and not former.users:
                await _closed(former)
        lent.users += 1
        try:
            yield lent
        finally:
            lent.users -= 1
            if not lent.users and self._open.get(tenant) is not lent:
                await _closed(lent)

    async def forget_unknown(self) -> None:
        """Close the clients of tenants that are gone, whoever uses them."""
        for tenant in self._open.keys() - self._tenants.known.keys():
            log.info("tenant.gone", tenant=tenant)
            await _closed(self._open.pop(tenant))

    async def close(self) -> None:
        """Close all."""
        lent, self._open = list(self._open.values()), {}
        await asyncio.gather(*map(_closed, lent))


async def _closed(lent: TenantClient) -> None:
    try:
        async with asyncio.timeout(CLOSE_S):
            await lent.close()
    except (ServiceError, TimeoutError) as exc:
        log.warning("client.not_closed", tenant=lent.tenant, error=str(exc))
