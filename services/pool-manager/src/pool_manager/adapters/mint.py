"""Makes pods' specs complete: a credential of the pod's own, the servers, the worker's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.identity import WorkerSigner
from shared.messages import Credential, PodSpec, Slot
from shared.pools import PoolSpec
from shared.settings import join

WORKER = "WORKER_"
"""Prefix of the worker's settings."""
TOLD_MAX = 1000
"""Full tenants that a pod's spec names."""


class SpecMint:
    """Implements `ports.Mint`."""

    def __init__(
        self,
        signer: WorkerSigner,
        pools: Sequence[PoolSpec],
        servers: tuple[str, ...],
        *,
        valid_s: float,
        common: Mapping[str, str],
    ) -> None:
        """Mint with `signer`.

        Args:
            signer: the workers'.
            pools: declared pools.
            servers: addresses for the workers.
            valid_s: seconds for which a credential is valid.
            common: settings of every worker.
        """
        self._signer = signer
        self._pools = {pool.name: pool for pool in pools}
        self._servers = servers
        self._valid_s = valid_s
        self._common = dict(common)
        self.full_tenants: tuple[str, ...] = ()
        """Tenants that get no new session: new workers are told at once."""

    def pod_spec(
        self,
        slot: Slot,
        isolation: str,
        lanes: tuple[tuple[str, int], ...],
        public_key: str | None = None,
    ) -> PodSpec:
        """Return what a node needs to start the slot's pod, or what its worker needs that made its own key."""
        pool = self._pools[slot.pool]
        if public_key is None:
            credential = self._signer.mint(slot.pool, slot.pod, valid_s=self._valid_s)
        else:
            token = self._signer.vouch(public_key, slot.pool, slot.pod, valid_s=self._valid_s)
            credential = Credential(jwt=token, seed="")
        return PodSpec(
            pod=slot.pod,
            pool=slot.pool,
            node=slot.node,
            isolation=isolation,
            limits=pool.limits,
            credential=credential,
            lanes=lanes,
            servers=self._servers,
            settings=self._common
            | {
                f"{WORKER}IDLE_RELEASE_S": str(pool.idle_release_s),
                f"{WORKER}ON_INTERRUPT": pool.interrupt_rule,
                f"{WORKER}CHECKPOINT_EVERY_S": str(pool.checkpoint_every_s),
                f"{WORKER}DURABILITY": pool.durability,
                f"{WORKER}EXCLUDE": join(pool.exclude),
                f"{WORKER}WORKSPACE": pool.workspace,
                f"{WORKER}FULL_TENANTS": ",".join(self.full_tenants[:TOLD_MAX]),
            },
        )

    def renew(self, token: str, pool: str, pod: str) -> str:
        """Return a JWT of the same key as `token`, whose end lies further ahead."""
        return self._signer.renew(token, pool, pod, valid_s=self._valid_s)
