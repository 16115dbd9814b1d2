"""Wall clocks that jump, of some services each for itself; monotonic clocks go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from agent_sandbox.embedded.procs import ProcessId
from chaos.core.dice import Dice
from chaos.nemesis import processes
from chaos.nemesis.base import Base
from chaos.nemesis.choice import some_of
from chaos.ports import Injected, NoVictim, Site

JUMPS_S = (3600, 0, -3600, 0, 2, 0, -2, 0)
"""What a clock is off by, one after the other."""
EACH_S = 3.0
"""A clock that is looked at has what it is off by half a second later."""
SHARE = 0.5


class ClockJumps(Base):
    """Clocks of half the nodes (with their checkpointers), managers and gateways jump by an hour and by 2 s, both ways.

    It is what Python programs are told when they ask for the time. Workers keep theirs: they are forked with an environment
    of their own.
    """

    name = "clock-jumps"
    needs = frozenset({"clocks"})
    jumps_s: ClassVar[tuple[int, ...]] = JUMPS_S

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._victims: dict[str, ProcessId] = {}
        self._moved: list[str] = []
        """Who used every jump; a service that asks for no time has none that could jump."""

    async def inject(self) -> Injected:
        """See `Fault`."""
        ground = self.ground
        running: dict[str, ProcessId] = {}
        for kind in ("node", "manager", "gateway"):
            found = processes.alive(self.site.rows(kind))
            running |= {name: found[name] for name in some_of(found, SHARE, self.dice)}
        if not running:
            raise NoVictim("no service runs")
        self._victims = running
        at_s = self.site.now()
        for jump_s in self.jumps_s:
            for name in running:
                ground.clocks[name].write_text(f"{jump_s}\n")
            await asyncio.sleep(EACH_S)
        wanted = set(self.jumps_s) - {0}
        self._moved = [
            name
            for name, process in sorted(running.items())
            if wanted <= used(ground.clocks[name], process)
        ]
        asked = f"asked for the time at each jump: {', '.join(self._moved) or 'none'}"
        return self.done(sorted(running), at_s, asked)

    async def heal(self) -> None:
        """See `Fault`."""
        for name in self._victims:
            self.ground.clocks[name].write_text("0\n")

    async def missed(self) -> str:
        """See `Base`."""
        if not self._victims:
            return "no clock jumped"
        return "" if self._moved else "nobody asked for the time"


def used(clock: Path, process: ProcessId) -> set[int]:
    """Return the offsets, seconds, that a process has used."""
    try:
        lines = clock.with_name(f"{clock.name}.used").read_text().splitlines()
    except FileNotFoundError:
        return set()
    return {int(offset) for pid, offset in map(str.split, lines) if int(pid) == process.pid}
