"""Brings a Kubernetes cluster into `app` where one runs the pods: what that stands on is heavy, and not installed everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from pool_manager.core.world import World
from pool_manager.settings import PoolSettings
from shared.errors import InvalidMessage
from shared.pools import PoolSpec

if TYPE_CHECKING:
    from pool_manager.placing import KubeSide, Reached


async def reach(settings: PoolSettings, closing: AsyncExitStack) -> Reached | None:
    """Return the cluster that the settings name, open until `closing` is closed; None: they name none."""
    if settings.pods != "kubernetes":
        return None
    from pool_manager.placing import reach_cluster  # noqa: PLC0415 - heavy

    return await closing.enter_async_context(reach_cluster(settings))


def check_places(pools: Sequence[PoolSpec], settings: PoolSettings) -> None:
    """Check that who runs the pods can give all pools what they declare.

    Raises:
        InvalidMessage: names the pool and the field.
    """
    for pool in pools:
        if pool.on_volume and settings.pods != "kubernetes":
            raise InvalidMessage(
                f"pool {pool.name!r}: workspace: pvc needs pods on Kubernetes; here: checkpoint"
            )


def kube_side(
    reached: Reached | None, world: World, pools: Sequence[PoolSpec], settings: PoolSettings
) -> KubeSide | None:
    """Return what a pool-manager has beside the rest for its cluster; None: it has none."""
    if reached is None:
        return None
    from pool_manager.placing import KubeSide  # noqa: PLC0415 - heavy

    return KubeSide(reached, world, pools, settings)
