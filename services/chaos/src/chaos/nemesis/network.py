"""The network between nodes and servers: cut in one direction, lossy, or slow towards where snapshots are kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Literal

from chaos.core.dice import Dice
from chaos.nemesis.base import aside
from chaos.nemesis.nodes import OfNodes
from chaos.nemesis.weather import lossy, steady
from chaos.ports import Injected, Site
from shared.testing.relay import Link, Way

LOSS, JITTER_S = 0.05, 0.1
SLOW_S = 0.05
"""Each way, for each chunk: a call to the store takes 0.1 s for its 2 ms."""


class _OfWays(OfNodes):
    """Does something to ways of a network."""

    needs = frozenset({"relays"})

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._ways: tuple[Way, ...] = ()

    async def change(self, ways: list[Way], act: Callable[[Way], None]) -> float:
        """Do something to ways; return when."""
        self._ways = tuple(ways)
        at_s = self.site.now()
        await aside(self._each, act)
        return at_s

    async def heal(self) -> None:
        """See `Fault`."""
        if self._ways:
            await aside(self._each, Way.heal)
        await super().heal()

    def _each(self, act: Callable[[Way], None]) -> None:
        relay = self.ground.relay
        assert relay is not None
        for way in self._ways:
            relay.do(partial(act, way))


class _OneWay(_OfWays):
    """All nodes of a share lose one direction of their network; the other stays."""

    way: Literal["there", "back"]

    async def inject(self) -> Injected:
        """See `Fault`."""
        ground = self.ground
        self.choose()
        links = [link for node in self.victims for link in ground.links_of(node)]
        at_s = await self.change([getattr(link, self.way) for link in links], Way.cut)
        return self.done(list(self.victims), at_s)

    async def missed(self) -> str:
        """See `Base`."""
        said = await super().missed()
        return said or ("" if any(way.withheld for way in self._ways) else "nothing was withheld")


class CutToServers(_OneWay):
    """What some nodes say is not heard; they hear."""

    name = "nodes-cut-to-servers"
    way = "there"


class CutFromServers(_OneWay):
    """Some nodes hear nothing; what they say is heard."""

    name = "nodes-cut-from-servers"
    way = "back"


class _Weather(_OfWays):
    """Shapes what goes between all nodes and the servers."""

    def shape(self) -> Callable[[], float]:
        """Return how long a chunk is under way."""
        raise NotImplementedError

    def links(self) -> list[Link]:
        """Return what is shaped."""
        raise NotImplementedError

    async def inject(self) -> Injected:
        """See `Fault`."""
        ways = [way for link in self.links() for way in link.ways]
        self.victims = self.nodes()
        at_s = await self.change(ways, lambda way: way.shape(self.shape()))
        return self.done(sorted(self.victims), at_s)

    async def missed(self) -> str:
        """See `Base`."""
        said = await super().missed()
        return said or ("" if sum(way.delayed for way in self._ways) else "nothing passed")


class Lossy(_Weather):
    """5 % of what goes between nodes and servers is lost and sent again, all of it comes up to 0.1 s late."""

    name = "lossy-network"
    lasts_s = 60.0

    def shape(self) -> Callable[[], float]:
        """See `_Weather`."""
        own = Random(self.dice.randrange(1 << 30))  # drawn from by the network's own thread
        return lossy(own, loss=LOSS, jitter_s=JITTER_S)

    def links(self) -> list[Link]:
        """See `_Weather`."""
        return [link for links in self.ground.nodes.values() for link in links]


class SlowStore(_Weather):
    """Each call of the checkpointers to their store takes fifty times as long."""

    name = "slow-store"
    lasts_s = 40.0

    def shape(self) -> Callable[[], float]:
        """See `_Weather`."""
        return steady(SLOW_S)

    def links(self) -> list[Link]:
        """See `_Weather`."""
        return [link for links in self.ground.checkpointers.values() for link in links]
