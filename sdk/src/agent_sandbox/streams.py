"""The streams of a cluster, whatever it runs on: made as declared, each shard led by a server of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from shared import logs
from shared.bus import Bus, BusOptions, Tls, leaders
from shared.bus.provision import provision
from shared.errors import Rejected, ServiceError
from shared.identity import Signer, roles
from shared.pools import PoolSpec
from shared.topology import topology

log = logs.get(__name__)

CONNECT_S = 20.0
SPREAD_S = 10.0


class Streams(msgspec.Struct, frozen=True):
    """Streams and consumers for pools, by a connection of its own for each act."""

    servers: tuple[str, ...]
    signer: Signer
    """Mints services of the account that holds them."""
    created_ms: int
    """Of the cluster: first sequence of its queues."""
    tls: Tls | None = None

    async def provision(self, pools: Sequence[PoolSpec]) -> None:
        """Create the streams and consumers that are missing, and bring the others into the declared form.

        Raises:
            Rejected: something differs that can't be changed (named).
            Unavailable: it could not be done in time.
        """
        async with self._manage() as bus:
            drift = await provision(bus, topology(pools, created_ms=self.created_ms), update=True)
        if drift:
            raise Rejected(
                f"streams differ from this version's declaration and can't be changed: {'; '.join(map(str, drift))}"
            )

    async def spread_leaders(self, pools: Sequence[PoolSpec]) -> None:
        """Move each shard's leaders to a server of its own; for a while only: what stays elsewhere works as well."""
        try:
            async with self._manage() as bus:
                wanted = topology(pools, created_ms=self.created_ms)
                left = await leaders.place(bus, wanted, deadline_s=SPREAD_S)
        except ServiceError as exc:
            log.warning("leaders.not_spread", error=str(exc))
        else:
            log.info("leaders.spread", left=left)

    @asynccontextmanager
    async def _manage(self) -> AsyncIterator[Bus]:
        options = BusOptions(
            servers=self.servers,
            name="provisioner",
            credential=self.signer.mint("provisioner", roles.provisioner(), expires_s=600),
            tls=self.tls,
        )
        bus = await Bus.connect(options, deadline_s=CONNECT_S)
        try:
            yield bus
        finally:
            await bus.close()
