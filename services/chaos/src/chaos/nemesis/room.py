"""Disks that are full: of a node, of a server, of the store of snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from chaos.adapters.disks import fill, takes_a_byte
from chaos.core.dice import Dice
from chaos.nemesis.base import Base, aside
from chaos.ports import Injected, Need, Site


class _DiskFull(Base):
    """Fills a small disk to its last byte; room comes back when it is healed."""

    disk: ClassVar[Need]
    lasts_s = 25.0

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._ballast: Path | None = None
        self._was_full = False

    async def inject(self) -> Injected:
        """See `Fault`."""
        whose, place = self.ground.disks[self.disk]
        at_s = self.site.now()
        self._ballast = place / "ballast"
        await aside(fill, place)
        self._was_full = not await aside(takes_a_byte, place)
        return self.done([whose], at_s)

    async def heal(self) -> None:
        """See `Fault`."""
        if self._ballast is not None:
            await aside(self._ballast.unlink, missing_ok=True)
        await super().heal()

    async def missed(self) -> str:
        """See `Base`."""
        return "" if self._was_full else "there was room"


class NodeDiskFull(_DiskFull):
    """The disk with all workspaces of a node is full."""

    name = "node-disk-full"
    needs = frozenset({"node_disk"})
    disk = "node_disk"


class ServerDiskFull(_DiskFull):
    """The disk with the streams of a server is full."""

    name = "server-disk-full"
    needs = frozenset({"server_disk"})
    disk = "server_disk"


class StoreDiskFull(_DiskFull):
    """The disk with all snapshots is full."""

    name = "store-disk-full"
    needs = frozenset({"store_disk"})
    disk = "store_disk"
