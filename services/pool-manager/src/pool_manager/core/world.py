"""All that a pool-manager knows, in one place. A view of what it heard; the truth is in the streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pool_manager.core.hearing import Hearing
from pool_manager.core.lost import Bounds, Detector
from pool_manager.core.nodes import Nodes
from pool_manager.core.peers import Peers
from pool_manager.core.plan import Facts, Times
from pool_manager.core.rescues import Checkpointers
from pool_manager.core.slots import SILENT_S, Phase, Slots
from pool_manager.core.stocks import StockRecord, stocks_of
from pool_manager.core.table import Table
from shared.kube_names import node_token
from shared.messages import NodeBeat, PodGone, Slot, WorkerBeat
from shared.pools import PoolSpec
from shared.record import Record

HUNG_S = 120.0
"""A pod that its node still has and whose worker was silent for so long, owning nothing, is ended."""

Due = Literal["slot", "bell"]
"""What a heartbeat can make due: a slot's next pod; a bell for a new worker, since messages wait."""


class World:
    """Sessions, workers, nodes, pools and the other pool-managers."""

    def __init__(
        self, me: str, pools: Sequence[PoolSpec], bounds: Bounds, now: float, started_ms: int = 0
    ) -> None:
        """Know nothing yet.

        Args:
            me: this pool-manager.
            pools: declared pools.
            bounds: times of detection.
            now: monotonic clock.
            started_ms: wall clock, milliseconds since 1970.
        """
        self._started_ms = started_ms
        self.hearing = Hearing(now)
        self.peers = Peers(me, now)
        self.table = Table()
        self.nodes = Nodes()
        self.checkpointers = Checkpointers()
        self.detector = Detector(self.nodes, self.checkpointers, bounds, now)
        self.pools = {spec.name: Slots(spec) for spec in pools}
        self.stocks = stocks_of(list(self.pools.values()), now)
        """Of the pools with a promise."""
        self.dead_nodes: tuple[str, ...] = ()
        """Nodes of a Kubernetes cluster that say nothing in any way."""

    def facts(self, slots: Slots, busy: set[str]) -> Facts:
        """Return what a pool's plan looks at."""
        bound = self.table.owned_count(slots.spec.name)
        return Facts(self.peers, self.nodes, bound, self._started_ms, busy, self.hearing.since)

    def hears(self, now: float) -> bool:
        """Return whether silence means something now; whoever judges by it asks first."""
        if self.hearing.tick(now):
            self.was_deaf(now)
        return self.hearing.connected

    def was_deaf(self, now: float) -> None:
        """Forget what only silence told: this process stood still, or had no connection."""
        self.hearing.again(now)
        self.detector.restart(now)
        self.peers.restart(now)
        for slots in self.pools.values():
            if slots.on_demand:
                slots.due.clear()  # bells of then; what still waits is found by asking the lanes

    def on_record(self, record: Record, seq: int, *, now: float, stored_ms: int = 0) -> bool:
        """Take in a record as stored; return whether a slot is due by that."""
        row = self.table.apply(record, seq, now=now, stored_ms=stored_ms)
        if row is None or record.owner is None or (slots := self.pools.get(record.pool)) is None:
            return False
        if record.state == "running" and row.since == now:
            slots.turns.started(record.lane)
        return slots.taken(record.owner, now)

    def on_worker(self, beat: WorkerBeat, now: float) -> Due | None:
        """Take in a worker's heartbeat; return what is due by that."""
        self.detector.heard(beat, now)
        slots = self.pools.get(beat.pool)
        if slots is None or self.detector.is_gone(beat.worker):
            return None
        warm = slots.count["warm"]
        if slots.heard(beat.worker, bound=beat.session is not None, now=now):
            return "slot"
        if slots.on_demand:
            return None  # its pods are told their lanes
        return "bell" if slots.count["warm"] > warm and slots.is_starved else None

    def on_gone(self, pool: str, gone: PodGone, now: float) -> bool:
        """Take in the end of a pod; return whether a slot is due by that."""
        self.detector.gone(gone, now)
        self.nodes.not_asked(gone.pod)
        slots = self.pools.get(pool)
        if slots is None:
            return False
        due = slots.gone(gone.pod, now)
        if due and gone.detail:
            slots.reason = f"{gone.node}: {gone.cause}: {gone.detail}"
        return due

    def on_node(self, beat: NodeBeat, now: float) -> bool:
        """Take in a node's heartbeat; return whether pods are gone by that whose end was not heard."""
        missing = [pod for pod in self.nodes.heard(beat, now) if not self.detector.is_gone(pod)]
        if not missing:
            return False
        node = self.nodes.get(beat.node)
        cause = "node_restarted" if node and node.restarted_at == now else "absent"
        for pod in missing:
            self.detector.gone(PodGone(pod=pod, node=beat.node, cause=cause), now)
            for slots in self.pools.values():
                slots.gone(pod, now)
        return True

    def on_slot(self, slot: Slot, seq: int, now: float) -> None:
        """Take in a slot's record as stored."""
        if (slots := self.pools.get(slot.pool)) is not None:
            slots.apply(slot, seq, fate=self._fate(slot.pod), now=now)

    def on_stock(self, record: StockRecord, seq: int, now: float) -> None:
        """Take in what was decided for a pool's stock."""
        if (stock := self.stocks.get(record.pool)) is not None:
            stock.adopt(record, seq, mine=record.manager == self.peers.me, now=now)

    def has_use_for(self, pool: str, pod: str, now: float) -> bool:
        """Return whether a pod fills a slot or owns a session of this pool, and lives as far as is known."""
        slots = self.pools.get(pool)
        if slots is None or self.detector.is_gone(pod):
            return False
        row = self.table.owned_by(pod)
        if row is not None:
            return row.record.pool == pool and self.detector.judge(row, now) is None
        return slots.has_pod(pod)

    def is_node_alive(self, name: str, now: float) -> bool:
        """Return whether the node of a session lives: by its own word, or by its checkpointer's where it says none.

        A Kubernetes cluster is one node to the plan; sessions name the one of its nodes that they are on.
        """
        if self.nodes.get(name) is not None:
            return self.nodes.is_alive(name, now)
        dead = {node_token(node) for node in self.dead_nodes}
        return name not in dead and self.checkpointers.is_heard(name, now)

    def hung_pods(self, now: float) -> list[tuple[str, str]]:
        """Return (pod, node) of pods that are there, and whose worker says nothing: stopped, or stuck at its start.

        What it owned was revoked long ago; one that still owns a session is left to that.
        """
        found = []
        for node in self.nodes:
            if not self.nodes.is_alive(node.name, now):
                continue
            for pod in node.pods - node.pending:
                worker = self.detector.worker(pod)
                last = max(
                    worker.seen if worker else 0.0,
                    self.nodes.listed_since(pod),
                    self.hearing.since,
                )
                if now - last > HUNG_S and self.table.owned_by(pod) is None:
                    found.append((pod, node.name))
        return found

    def forget(self, now: float) -> None:
        """Drop what is too old to matter."""
        self.detector.forget(now)
        self.nodes.forget(now)
        self.checkpointers.forget(now)

    def _fate(self, pod: str) -> Phase | None:
        if self.detector.is_gone(pod):
            return "gone"
        if self.table.owned_by(pod) is not None:
            return "taken"
        worker = self.detector.worker(pod)
        if worker is None or worker.beat.session is not None:
            return None  # it is soon heard again, or the record of its session is
        return "warm"

    def warm_workers(self, pool: str, now: float) -> list[tuple[str, str, float]]:
        """Return (pod, node, first heard) of a pool's workers that live and have no session."""
        return [
            (worker.name, worker.beat.node, worker.first_heard)
            for worker in self.detector.heard_since(now - SILENT_S)
            if worker.beat.pool == pool
            and worker.beat.session is None
            and self.table.owned_by(worker.name) is None
        ]


__all__ = ["Bounds", "Times", "World"]
