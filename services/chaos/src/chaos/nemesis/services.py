"""Pool-managers that die; checkpointers that die or stand still."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import ClassVar

from agent_sandbox.embedded.companions import companions
from agent_sandbox.embedded.procs import ProcessId, wait_gone
from chaos.core.dice import Dice
from chaos.nemesis import processes
from chaos.nemesis.base import Base, aside
from chaos.nemesis.choice import so_many_of, some_of
from chaos.ports import Injected, NoVictim, Site

SHARE = 0.5


class _Signalled(Base):
    """Sends a signal to processes."""

    number: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self.victims: dict[str, ProcessId] = {}
        self._unhit: Sequence[ProcessId] = ()

    def choose(self) -> dict[str, ProcessId]:
        """Draw the victims."""
        raise NotImplementedError

    async def inject(self) -> Injected:
        """See `Fault`."""
        self.victims = await aside(self.choose)
        if not self.victims:
            raise NoVictim("none of them runs")
        processes_hit = list(self.victims.values())
        at_s = self.site.now()
        if self.number == signal.SIGKILL:
            processes.send(processes_hit, signal.SIGKILL)
            self._unhit = await aside(wait_gone, processes_hit, processes.GONE_S)
        else:
            stopped = await aside(processes.stop, processes_hit)
            self._unhit = [one for one in processes_hit if one not in stopped]
        return self.done(sorted(self.victims), at_s)

    async def heal(self) -> None:
        """See `Fault`."""
        processes.send(
            (one for one in processes.trees(self.victims.values()) if processes.stands_still(one)),
            signal.SIGCONT,
        )
        await super().heal()

    async def missed(self) -> str:
        """See `Base`."""
        if not self.victims:
            return "nothing was hit"
        return f"{len(self._unhit)} were not hit" if self._unhit else ""


class PoolManagersKilled(_Signalled):
    """All pool-managers are killed at once; they are started again."""

    name = "pool-managers-killed"

    def choose(self) -> dict[str, ProcessId]:
        """See `_Signalled`."""
        return processes.alive(self.site.rows("manager"))


class PoolManagerKilled(PoolManagersKilled):
    """One pool-manager is killed; it is started again."""

    name = "pool-manager-killed"

    def choose(self) -> dict[str, ProcessId]:
        """See `_Signalled`."""
        running = super().choose()
        return {name: running[name] for name in so_many_of(running, 1, self.dice)}


class CheckpointerKilled(_Signalled):
    """The checkpointers of half the nodes are killed; their nodes start them again."""

    name = "checkpointer-killed"

    def choose(self) -> dict[str, ProcessId]:
        """See `_Signalled`."""
        running = processes.alive(companions(self.site.rows("node")))
        return {name: running[name] for name in some_of(running, SHARE, self.dice)}


class CheckpointerStopped(CheckpointerKilled):
    """The checkpointers of half the nodes stand still for a while."""

    name = "checkpointer-stopped"
    number = signal.SIGSTOP
    lasts_s = 8.0
