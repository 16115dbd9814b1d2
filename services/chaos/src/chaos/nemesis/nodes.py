"""Nodes that die, vanish or stand still, with all their pods and their checkpointers."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from agent_sandbox.embedded.procs import ProcessId
from chaos.core.dice import Dice
from chaos.nemesis import processes
from chaos.nemesis.base import Base, aside
from chaos.nemesis.choice import so_many_of, some_of
from chaos.nemesis.servers import LeaderKilled
from chaos.ports import Injected, NoVictim, Site
from shared.testing.relay import Link

SHARE = 0.3
DOUBLE = 2
"""Nodes of the double fault."""


class OfNodes(Base):
    """Hits some nodes."""

    count: ClassVar[int | None] = None
    """How many; None: a share of them."""

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self.victims: dict[str, ProcessId] = {}
        self.left: Sequence[ProcessId] = ()
        """What was to be hit, and was not."""

    def choose(self) -> list[ProcessId]:
        """Draw the victims; never all nodes.

        Raises:
            NoVictim: fewer than two run.
        """
        running = self.nodes()
        names = (
            some_of(running, SHARE, self.dice)
            if self.count is None
            else so_many_of(running, self.count, self.dice)
        )
        if not names:
            raise NoVictim(f"{len(running)} nodes run")
        self.victims = {name: running[name] for name in names}
        return list(self.victims.values())

    async def missed(self) -> str:
        """See `Base`."""
        if not self.victims:
            return "no node was hit"
        return f"{len(self.left)} processes were not hit" if self.left else ""


class NodesKilled(OfNodes):
    """A share of the nodes is killed, whole trees at once; they come back when it is healed, with their old disks."""

    name = "nodes-killed"

    async def inject(self) -> Injected:
        """See `Fault`."""
        roots = self.choose()
        self.hold()
        at_s = self.site.now()
        self.left = await aside(processes.kill, roots)
        return self.done(list(self.victims), at_s)


class NodesVanish(OfNodes):
    """A share of the nodes is gone without a word, as by a power cut: nobody hears that their connections ended."""

    name = "nodes-vanish"
    needs = frozenset({"relays"})

    async def inject(self) -> Injected:
        """See `Fault`."""
        assert self.ground.relay is not None
        roots = self.choose()
        self.hold()
        at_s = self.site.now()
        await aside(self._links, Link.cut)
        self.left = await aside(processes.kill, roots)
        return self.done(list(self.victims), at_s)

    async def heal(self) -> None:
        """See `Fault`."""
        if self.victims:
            await aside(self._links, Link.heal)
        await super().heal()

    def _links(self, act: Callable[[Link], None]) -> None:
        ground = self.ground
        assert ground.relay is not None
        for node in self.victims:
            for link in ground.links_of(node):
                ground.relay.do(partial(act, link))

    async def missed(self) -> str:
        """See `Base`."""
        links = [link for node in self.victims for link in self.ground.nodes[node]]
        said = await super().missed()
        return said or (
            "" if any(link.there.withheld for link in links) else "nothing was withheld"
        )


class NodesStopped(OfNodes):
    """A share of the nodes stands still for longer than it takes to be given up, and then goes on as if nothing was."""

    name = "nodes-stopped"
    lasts_s = 8.0

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._stopped: Sequence[ProcessId] = ()
        self._all_stood = False

    async def inject(self) -> Injected:
        """See `Fault`."""
        roots = self.choose()
        at_s = self.site.now()
        self._stopped = await aside(processes.stop, roots)
        self._all_stood = all(map(processes.stands_still, processes.trees(roots)))
        return self.done(list(self.victims), at_s, f"{len(self._stopped)} processes stand still")

    async def heal(self) -> None:
        """See `Fault`."""
        roots = list(self.victims.values())
        stopped = {*self._stopped, *await aside(processes.trees, roots)}
        processes.send((one for one in stopped if processes.stands_still(one)), signal.SIGCONT)
        await super().heal()

    async def missed(self) -> str:
        """See `Base`."""
        return await super().missed() or ("" if self._all_stood else "some of it ran on")


class DoubleFault(Base):
    """Two nodes and the leader of most queue streams are killed within a second."""

    name = "double-fault"

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._parts: tuple[Base, ...] = (_TwoNodes(site, dice), LeaderKilled(site, dice))

    async def inject(self) -> Injected:
        """See `Fault`."""
        done = [await part.inject() for part in self._parts]
        late_s = done[-1].at_s - done[0].at_s
        targets = [target for one in done for target in one.targets]
        return self.done(targets, done[0].at_s, f"{late_s:.2f} s apart")

    async def heal(self) -> None:
        """See `Fault`."""
        for part in self._parts:
            await part.heal()

    async def missed(self) -> str:
        """See `Base`."""
        return "; ".join([said for part in self._parts if (said := await part.missed())])


class _TwoNodes(NodesKilled):
    count = DOUBLE
