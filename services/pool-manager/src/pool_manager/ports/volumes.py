"""Volumes of pools, as pool-managers see to them. Writes are tried once; errors as for the other ports."""

from __future__ import annotations

from typing import Protocol

from pool_manager.core.volume_state import ClaimView, DeploymentView
from shared.pools import PoolSpec


class Volumes(Protocol):
    """Claims, and the keepers' Deployments."""

    async def claims(self) -> dict[str, ClaimView]:
        """Return claims by their pools."""
        ...

    async def keepers(self) -> dict[str, DeploymentView]:
        """Return keepers' Deployments by their pools."""
        ...

    async def claim(self, pool: PoolSpec) -> None:
        """Claim a pool's volume; one that is claimed already is no error."""
        ...

    async def keep(self, pool: PoolSpec, before: DeploymentView | None) -> None:
        """Have a pool's keepers, in the form that they are to have now, in place of what was there before."""
        ...

    async def dismiss(self, keepers: DeploymentView) -> None:
        """End the keepers of a pool that is not declared any more."""
        ...


class Folders(Protocol):
    """The keepers, asked."""

    async def make(self, pool: str, pod: str) -> None:
        """Have a folder for a pod on its pool's volume; asked twice, it is there once.

        Raises:
            Unavailable: nobody listens, or the volume can't be used now (why is said).
            OutcomeUnknown: no answer in time.
        """
        ...
