"""Snapshots that are damaged where they are kept."""

from __future__ import annotations

from pathlib import Path

from chaos.core.dice import Dice
from chaos.nemesis.nodes import NodesKilled
from chaos.nemesis.servers import turn_over
from chaos.ports import Injected, NoVictim, Site

DAMAGED = 3
BITS = 8


class SnapshotsDamaged(NodesKilled):
    """Bits of the newest packs are turned over, and a share of the nodes is killed: their sessions need the packs."""

    name = "snapshots-damaged"
    needs = frozenset({"store_folder"})

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._damaged: list[Path] = []

    async def inject(self) -> Injected:
        """See `Fault`."""
        store = self.ground.store
        assert store is not None
        packs = newest(store)
        if not packs:
            raise NoVictim("there is no pack yet")
        chosen = self.dice.sample(packs, min(DAMAGED, len(packs)))
        self._damaged = [pack for pack in chosen if turn_over(pack, self.dice, BITS)]
        return await super().inject()

    async def missed(self) -> str:
        """See `Base`."""
        return await super().missed() or ("" if self._damaged else "no pack was damaged")


def newest(store: Path) -> list[Path]:
    """Return the newer half of the packs in a folder, in order."""
    found = []
    for path in store.rglob("*"):
        if path.is_file() and (stat := path.stat()).st_size:
            found.append((stat.st_mtime_ns, path))
    found.sort()
    return [path for _, path in found[len(found) // 2 :]]
