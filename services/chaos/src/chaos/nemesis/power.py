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
        self._is_back = False

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
        await aside(disk.cut)
        processes.send(servers.values(), signal.SIGKILL)
        await aside(wait_gone, list(servers.values()), processes.GONE_S)
        await self._back()
        return self.done(sorted(servers), at_s)

    async def _back(self) -> None:
        if self._witness is not None and not self._is_back:
            disk = self.ground.power
            assert disk is not None
            await aside(disk.restore)
            self._is_back = True
        self.release()

    async def heal(self) -> None:
        """See `Fault`."""
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
