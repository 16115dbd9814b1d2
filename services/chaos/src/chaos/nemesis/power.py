"""Power that fails under all servers at once: what they had not synced never was."""

from __future__ import annotations

import signal
from pathlib import Path

from agent_sandbox.embedded.procs import wait_gone
from chaos.core.dice import Dice
from chaos.nemesis import processes
from chaos.nemesis.base import Base, aside
from chaos.ports import Injected, NoVictim, Site

WITNESS_BYTES = 64 * 1024


class PowerLoss(Base):
    """The disk of all servers loses its power, and they with it; both come back at once.

    The servers are stopped before: none acknowledges anything between the two. A witness, written and not synced right
    before the cut, must be gone afterwards, or nothing was shown.
    """

    name = "power-loss"
    needs = frozenset({"power"})
    lasts_s = 40.0

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._witness: Path | None = None
        self._is_cut = False

    async def inject(self) -> Injected:
        """See `Fault`."""
        disk = self.ground.power
        assert disk is not None
        servers = processes.alive(self.site.rows("server"))
        if not servers:
            raise NoVictim("no server runs")
        self.hold()
        self._witness = disk.place / "witness"
        at_s = self.site.now()
        processes.send(servers.values(), signal.SIGSTOP)
        self._witness.write_bytes(b"?" * WITNESS_BYTES)
        self._is_cut = True
        await aside(disk.cut)
        await self._back()
        return self.done(sorted(servers), at_s)

    async def _back(self) -> None:
        """Give the disk its power again, once; no server outlives the cut."""
        if self._is_cut:
            disk = self.ground.power
            assert disk is not None
            servers = list(processes.alive(self.site.rows("server")).values())
            processes.send(servers, signal.SIGKILL)
            await aside(wait_gone, servers, processes.GONE_S)
            await aside(disk.restore)
            self._is_cut = False
        self.release()

    async def heal(self) -> None:
        """See `Fault`."""
        if not self._is_cut:  # it was broken off before, or all is back
            servers = processes.alive(self.site.rows("server"))
            processes.send(servers.values(), signal.SIGCONT)
        await self._back()

    async def missed(self) -> str:
        """See `Base`."""
        if self._witness is None:
            return "no power was cut"
        try:
            kept = self._witness.stat().st_size
        except FileNotFoundError:
            kept = 0
        return "what was not synced was kept" if kept else ""
