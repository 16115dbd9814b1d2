"""A task that kills its worker each time."""

from __future__ import annotations

from agent_sandbox import Client, ClientOptions, NoResultYet
from chaos.core.dice import Dice
from chaos.nemesis.base import Base
from chaos.nemesis.victims import kill_owner, own_pool, owned
from chaos.ports import Injected, NoVictim, Site
from shared.limits import DEATHS_MAX

ENDS_S = 30.0
"""Longest time from its last death to its end."""
KILLS_MAX = 2 * DEATHS_MAX
"""A death that is noticed by its silence, not by its end, does not count as the task's: a hang is none."""
SLEEPS_S = 600


class PoisonTask(Base):
    """Whoever runs one certain task is killed, until it is poison. The task is this fault's own; no other is touched."""

    name = "poison-task"
    lasts_s = 1.0

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._deaths = 0
        self._said = "it did not come to its end"

    async def inject(self) -> Injected:
        """See `Fault`."""
        async with Client(ClientOptions(state=self.site.folder.path)) as client:
            running = await client.start(
                ["sleep", str(SLEEPS_S)], pool=own_pool(self.site.folder), on_interrupt="rerun"
            )
            await running.started(wait_s=ENDS_S)
            at_s, epoch, nodes = self.site.now(), 0, []
            while self._deaths < KILLS_MAX:
                try:
                    record = await owned(self.site, running.session_id, epoch)
                except NoVictim:  # it has ended
                    break
                await kill_owner(self.site, record)
                self._deaths, epoch = self._deaths + 1, record.epoch
                nodes.append(record.node or "")
            last_s = self.site.now()
            try:
                status = (await running.result(wait_s=ENDS_S)).raw.status
            except NoResultYet:
                status = None
                await running.cancel()
        self._said = "" if status == "poison" else f"it ended {status or 'not'} after {ENDS_S:g} s"
        took_s = self.site.now() - last_s
        words = f"{status} after {self._deaths} deaths, {took_s:.1f} s after the last"
        return self.done(nodes, at_s, words)

    async def missed(self) -> str:
        """See `Base`."""
        return "" if self._deaths >= DEATHS_MAX else f"its worker died {self._deaths} times"

    async def failed(self) -> str:
        """See `Base`."""
        return self._said
