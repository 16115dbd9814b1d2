"""Volumes of pools, as pool-managers see to them. Writes are tried once; errors as for the other ports."""

from __future__ import annotations

from typing import Protocol

from pool_manager.core.dead_nodes import Act
from pool_manager.core.volume_state import ClaimView, DeploymentView
from shared.kube.views import NodeView
from shared.pools import PoolSpec


class Volumes(Protocol):
    """Claims, and the keepers' Deployments."""

    async def claims(self) -> dict[str, ClaimView]:
        """Return claims by their pools."""
        ...

    async def keepers(self) -> dict[str, DeploymentView]:
        """Return keepers' Deployments by their pools."""
        ...

    async def keeper_nodes(self) -> dict[str, set[str]]:
        """Return the nodes that have pods of keepers, by their pools; also those whose end nobody has seen yet."""
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


class Nodes(Protocol):
    """Nodes, as far as a volume is attached to one."""

    async def mark(self, node: NodeView, act: Act) -> None:
        """Take a node out of service, or back; one that has changed since `node` was read stays as it is.

        Raises:
            Forbidden: that is not allowed to pool-managers of this cluster.
        """
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
