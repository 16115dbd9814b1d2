"""Faults of a system on Kubernetes: nodes that die, with a server of the queue or without, and services' pods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from chaos.core.dice import Dice
from chaos.nemesis.choice import leader_of_most
from chaos.nemesis.nodes import SHARE
from chaos.nemesis.servers import QUEUES
from chaos.ports.faults import Injected, NoVictim
from chaos.ports.kube_site import KubeNode, KubeSite

NAME_LABEL = "app.kubernetes.io/name"
POD_LABEL = "statefulset.kubernetes.io/pod-name"


class KubeFault(ABC):
    """A fault of a system on Kubernetes. Made for one injection."""

    name: str
    lasts_s = 60.0
    """How long it stays before it is healed, where it is done alone, seconds: Kubernetes itself notices after 40 to 50."""

    def __init__(self, site: KubeSite, dice: Dice) -> None:
        """Do nothing yet."""
        self.site, self.dice = site, dice
        self.hit: list[str] = []
        """What was hit."""

    @abstractmethod
    async def inject(self) -> Injected:
        """Do it. See `Fault`."""

    @abstractmethod
    async def heal(self) -> None:
        """Take it back. See `Fault`."""

    async def missed(self) -> str:
        """Return why it can't be shown that it did bite; empty: it did."""
        return "" if self.hit else "nothing was hit"

    async def failed(self) -> str:
        """Return what the fault itself saw go wrong; empty: nothing."""
        return ""


class KubeNodes(KubeFault):
    """Takes nodes down."""

    def __init__(self, site: KubeSite, dice: Dice) -> None:
        """See `KubeFault`."""
        super().__init__(site, dice)
        self._open: list[str] = []

    @abstractmethod
    async def choose(self) -> Sequence[KubeNode]:
        """Draw the victims."""

    async def inject(self) -> Injected:
        """See `Fault`."""
        chosen = await self.choose()
        at_s = self.site.now()
        for node in chosen:
            self._open.append(node.name)
            await self.site.down(node.name)
            self.hit.append(node.name)
        targets = [name for node in chosen for name in (node.token, *node.servers)]
        how = "taken down" if self.site.fails_nodes else "emptied, pods deleted"
        words = f"{', '.join(self.hit)}: {how} within {self.site.now() - at_s:.1f} s"
        return Injected(fault=self.name, targets=tuple(targets), at_s=at_s, detail=words)

    async def heal(self) -> None:
        """See `Fault`."""
        while self._open:
            await self.site.up(self._open[-1])
            self._open.pop()


class KubeNodesKilled(KubeNodes):
    """30 % of the nodes with workers die, at least one; those without a server of the queue first."""

    name = "nodes-killed"

    async def choose(self) -> Sequence[KubeNode]:
        """See `KubeNodes`."""
        nodes = [node for node in await self.site.nodes() if node.workers]
        if len(nodes) < 2:
            raise NoVictim(f"workers are on {len(nodes)} nodes")
        return without_servers_first(nodes, max(1, round(SHARE * len(nodes))), self.dice)


class KubeLeaderKilled(KubeNodes):
    """The node dies on which the server runs that leads most queue streams; the server's pod alone, if two are on that node."""

    name = "queue-leader-killed"

    async def choose(self) -> Sequence[KubeNode]:
        """See `KubeNodes`."""
        leader = await self.leader()
        return [node for node in await self.site.nodes() if leader in node.servers]

    async def leader(self) -> str:
        """Return the server that leads most queue streams.

        Raises:
            NoVictim: nobody leads one.
        """
        leader = leader_of_most(await self.site.leaders(*QUEUES), self.dice)
        if leader is None:
            raise NoVictim("the queue has no leader")
        return leader

    async def inject(self) -> Injected:
        """See `Fault`."""
        chosen = await self.choose()
        if not chosen:
            raise NoVictim("the queue's leader is on no node that is ready")
        if len(chosen[0].servers) == 1:
            return await super().inject()
        at_s, leader = self.site.now(), await self.leader()
        self.hit = await self.site.end_pods(f"{POD_LABEL}={leader}")
        words = f"its pod: {chosen[0].name} holds {len(chosen[0].servers)} servers"
        return Injected(fault=self.name, targets=tuple(self.hit), at_s=at_s, detail=words)


class KubeDoubleFault(KubeNodes):
    """A node dies, one without a server of the queue if there is one, and right after it the queue's leader, by its pod."""

    name = "double-fault"

    async def choose(self) -> Sequence[KubeNode]:
        """See `KubeNodes`."""
        self._leader = await KubeLeaderKilled(self.site, self.dice).leader()
        nodes = [node for node in await self.site.nodes() if node.workers]
        others = [node for node in nodes if self._leader not in node.servers]
        if not others:
            raise NoVictim("no node with workers is left beside the leader's own")
        return without_servers_first(others, 1, self.dice)

    async def inject(self) -> Injected:
        """See `Fault`."""
        done = await super().inject()
        ended = await self.site.end_pods(f"{POD_LABEL}={self._leader}")
        self.hit += ended
        late_s = self.site.now() - done.at_s
        detail = f"{done.detail}; {', '.join(ended) or 'no leader'} {late_s:.1f} s after it"
        return Injected(
            fault=self.name, targets=(*done.targets, *ended), at_s=done.at_s, detail=detail
        )


class _KubePod(KubeFault):
    """Ends a pod of a service."""

    service: str

    async def inject(self) -> Injected:
        """See `Fault`."""
        at_s = self.site.now()
        self.hit = await self.site.end_pods(f"{NAME_LABEL}={self.service}")
        if not self.hit:
            raise NoVictim(f"no pod of {self.service} runs")
        return Injected(fault=self.name, targets=tuple(self.hit), at_s=at_s)

    async def heal(self) -> None:
        """See `Fault`."""
        return  # Kubernetes starts another by itself


class KubeManagerKilled(_KubePod):
    """A pool-manager's pod ends at once."""

    name = "pool-manager-killed"
    service = "pool-manager"


class KubeCheckpointerKilled(_KubePod):
    """A checkpointer's pod ends at once."""

    name = "checkpointer-killed"
    service = "checkpointer"


def without_servers_first(nodes: Sequence[KubeNode], count: int, dice: Dice) -> list[KubeNode]:
    """Draw nodes, those with the fewest servers of the queue first: two servers of three must live."""
    drawn = dice.sample(sorted(nodes, key=lambda node: node.name), len(nodes))
    return sorted(drawn, key=lambda node: len(node.servers))[:count]


_ALL: tuple[type[KubeFault], ...] = (
    KubeNodesKilled, KubeLeaderKilled, KubeDoubleFault, KubeManagerKilled, KubeCheckpointerKilled,
)  # fmt: skip
KUBE_FAULTS: dict[str, type[KubeFault]] = {fault.name: fault for fault in _ALL}
