"""The Kubernetes API as the provisioner sees it."""

from __future__ import annotations

from agent_sandbox.provisioner.ports import Held, Place, Workload
from shared.kube.keepers import Keepers


class KubeObjects:
    """Implements `ports.Objects`."""

    def __init__(self, keepers: Keepers) -> None:
        """Read and write through `keepers`."""
        self._keepers = keepers

    async def read(self, place: Place) -> Held | None:
        """Return what it holds, None where there is none."""
        kept = await self._keepers.read(place.kind, place.namespace, place.name)
        return None if kept is None else Held(kept.data, kept.version)

    async def write(self, place: Place, data: dict[str, bytes], version: str | None) -> None:
        """Create it, or replace what that version held."""
        await self._keepers.write(place.kind, place.namespace, place.name, data, version)

    async def template_mark(self, kind: Workload, namespace: str, name: str) -> str | None:
        """Return the mark of a workload's pods."""
        return await self._keepers.mark_of(kind, namespace, name)

    async def mark_template(self, kind: Workload, namespace: str, name: str, mark: str) -> None:
        """Give a workload's pods a mark."""
        await self._keepers.mark(kind, namespace, name, mark)
