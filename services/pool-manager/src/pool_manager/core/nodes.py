"""What the nodes say of themselves, and which of them takes the next pod."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from shared.messages import NodeBeat
from shared.pools import ISOLATION_CLASSES, Isolation

ALIVE_S = 2.0
"""Four missed heartbeats, and a node gets no new pod."""
FORGET_S = 600.0
ON_ITS_WAY_S = 0.25
"""A heartbeat may come so long after the word that its sender's connection ended: servers tell of that on another way."""
AUTO = tuple(klass for klass in reversed(ISOLATION_CLASSES) if klass != "process")
"""What `auto` takes, strongest first."""
REFUSED_S = 1.0
"""A node that refused a pod, or did not listen, is asked for no other one for so long."""


class Node(msgspec.Struct):
    """One node as last heard."""

    name: str
    seen: float
    started_ms: int
    pods: frozenset[str]
    capacity: int
    isolation: dict[str, str]
    draining: bool = False
    pending: frozenset[str] = frozenset()
    restarted_at: float | None = None
    """When a new process of the node was first heard: pods of the former one are gone."""
    cut_at: float | None = None
    """When its connection ended, unless it was heard since."""


class Place(msgspec.Struct, frozen=True):
    """Where a pod is to be started, and under which isolation class."""

    node: str
    isolation: str


def still_cut(cut_at: float | None, now: float) -> float | None:
    """Return when a connection ended of which a heartbeat comes now: one that was on its way then proves nothing."""
    return cut_at if cut_at is not None and now - cut_at < ON_ITS_WAY_S else None


class Nodes:
    """All nodes, and the pods that were asked of them but are not in their heartbeats yet."""

    def __init__(self) -> None:
        """Start without nodes."""
        self._nodes: dict[str, Node] = {}
        self._listed: dict[str, float] = {}
        self._ran: dict[str, float] = {}
        self._refused: dict[str, tuple[float, str]] = {}
        self._asked: dict[str, str] = {}
        self._asked_count: dict[str, int] = {}

    def __iter__(self) -> Iterator[Node]:
        """Go through the nodes."""
        return iter(list(self._nodes.values()))

    def get(self, name: str | None) -> Node | None:
        """Return what is known of a node."""
        return None if name is None else self._nodes.get(name)

    def heard(self, beat: NodeBeat, now: float) -> list[str]:
        """Take in a heartbeat; return the pods that it no longer names: they are gone."""
        before = self._nodes.get(beat.node)
        if before is not None and beat.started_ms < before.started_ms:
            return []  # a late heartbeat of the former process
        pods = frozenset(beat.pods)
        restarted = before is not None and beat.started_ms != before.started_ms
        self._nodes[beat.node] = Node(
            name=beat.node,
            seen=now,
            started_ms=beat.started_ms,
            pods=pods,
            capacity=beat.capacity,
            isolation=beat.isolation,
            draining=beat.draining,
            pending=frozenset(beat.pending),
            restarted_at=now if restarted else before.restarted_at if before else None,
            cut_at=still_cut(before.cut_at if before else None, now),
        )
        for pod in pods & self._asked.keys():
            self.not_asked(pod)
        known = before.pods if before else frozenset()
        for pod in pods - known:
            self._listed[pod] = now
        if before is not None and before.pending:
            for pod in pods & before.pending.difference(beat.pending):
                self._listed[pod] = self._ran[pod] = now
        for pod in known - pods:
            self._listed.pop(pod, None)
            self._ran.pop(pod, None)
        return sorted(known - pods)

    def cut(self, name: str, now: float) -> None:
        """A server says that a node's connection to it ended."""
        if (node := self._nodes.get(name)) is not None:
            node.cut_at = now

    def has(self, pod: str | None) -> bool:
        """Return whether any node names a pod in its newest heartbeat."""
        return any(pod in node.pods for node in self._nodes.values())

    def listed_since(self, pod: str) -> float:
        """Return when a pod was first in its node's heartbeats, or ceased to be pending there; 0: it is in none."""
        return self._listed.get(pod, 0.0)

    def ran_since(self, pod: str) -> float:
        """Return when a pod ceased to be pending; 0: it never was."""
        return self._ran.get(pod, 0.0)

    def forget(self, now: float) -> None:
        """Drop nodes that were not heard for long."""
        for node in [n for n in self._nodes.values() if now - n.seen > FORGET_S]:
            del self._nodes[node.name]
            for pod in node.pods:
                self._listed.pop(pod, None)
                self._ran.pop(pod, None)

    def asked(self, pod: str, node: str) -> None:
        """Count a pod that a node is asked to start."""
        self.not_asked(pod)
        self._asked[pod] = node
        self._asked_count[node] = self._asked_count.get(node, 0) + 1

    def not_asked(self, pod: str) -> None:
        """Count it no more: it appeared, is gone or never came."""
        node = self._asked.pop(pod, None)
        if node is not None:
            self._asked_count[node] -= 1

    def refused(self, name: str, why: str, now: float) -> None:
        """A node did not take a pod."""
        self._refused[name] = (now, why)

    def is_alive(self, name: str | None, now: float) -> bool:
        """Return whether a node was heard lately."""
        node = self.get(name)
        return node is not None and now - node.seen <= ALIVE_S

    def load(self, node: Node) -> int:
        """Return the pods that a node has or is asked to start."""
        return len(node.pods) + self._asked_count.get(node.name, 0)

    def _share(self, node: Node) -> float:
        return self.load(node) / node.capacity

    def choose(self, isolation: Isolation, now: float) -> Place | str:
        """Return the least loaded node that may take a pod of this class; where there is none, the reason."""
        alive = [node for node in self._nodes.values() if now - node.seen <= ALIVE_S]
        if not alive:
            return "no node is alive"
        staying = [node for node in alive if not node.draining]
        if not staying:
            return "every node that is alive is draining"
        for name in [name for name, (at, _) in self._refused.items() if now - at > REFUSED_S]:
            del self._refused[name]
        open_ = [node for node in staying if node.name not in self._refused]
        if not open_:
            return "; ".join(f"{n.name}: {self._refused[n.name][1]}" for n in staying)
        able = [(node, klass) for node in open_ if (klass := class_on(node, isolation))]
        if not able:
            return _why_not(open_, isolation)
        free = [(node, klass) for node, klass in able if self.load(node) < node.capacity]
        if not free:
            full = ", ".join(f"{node.name} {self.load(node)}/{node.capacity}" for node, _ in able)
            return f"every node that could take a pod is full: {full}"
        node, klass = min(free, key=lambda pair: (self._share(pair[0]), pair[0].name))
        return Place(node.name, klass)


def class_on(node: Node, isolation: Isolation) -> str | None:
    """Return the class that a pod would get on this node: the one asked for, or for `auto` the node's strongest.

    `process` has no walls; it is given to pools that name it, never by `auto`.
    """
    wanted = AUTO if isolation == "auto" else (isolation,)
    return next((klass for klass in wanted if node.isolation.get(klass) == ""), None)


def _why_not(nodes: list[Node], isolation: Isolation) -> str:
    if isolation == "auto":
        whys = "; ".join(f"{n.name}: {_reasons(n)}" for n in nodes)
        return f"no node has an isolation class with walls ({whys})"
    whys = "; ".join(f"{n.name}: {n.isolation.get(isolation, 'unknown there')}" for n in nodes)
    return f"no node has isolation class {isolation} ({whys})"


def _reasons(node: Node) -> str:
    return ", ".join(f"{klass}: {why}" for klass, why in node.isolation.items() if why)
