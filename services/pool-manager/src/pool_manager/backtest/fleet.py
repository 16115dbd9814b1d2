"""Several pool-managers of one pool beside each other, message by message: what each hears late, what they order, who dies.

Everything that decides is the production code, and every message is encoded and read again. Servers, nodes and workers are
played: a store with compare-and-set, pods that take their time, and claims by whoever waits. Times are simulated seconds.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections import deque
from collections.abc import Callable
from functools import partial

import msgspec

from pool_manager.core.lost import Bounds
from pool_manager.core.peers import BEAT_S, ManagerBeat
from pool_manager.core.plan import Clock, Start, starts
from pool_manager.core.stocks import StockRecord
from pool_manager.core.world import World
from shared import messages, transitions
from shared.messages import NodeBeat, PodGone, Slot, WorkerBeat
from shared.pools import PoolSpec
from shared.record import Origin, Record

NODE, TENANT, KLASS = "n", "acme", "interactive"
HOP_S = (0.0005, 0.005)
"""A message takes so long to each who hears it."""
LOOK_S, TICK_S, NODE_S = 0.5, 1.0, 1.0


class Manager:
    """One pool-manager: its view, and what it has under way."""

    def __init__(self, name: str, spec: PoolSpec) -> None:
        """Know nothing yet."""
        self.name = name
        self.world = World(name, [spec], Bounds(1.5, 4.0, 0.3), 0.0)
        self.slots = self.world.pools[spec.name]
        self.stock = self.world.stocks[spec.name]
        self.stock.nothing_stored()
        self.reserving: set[str] = set()
        self.lives = True


class Told(msgspec.Struct):
    """What came of it."""

    claims: int = 0
    waited: int = 0
    started: int = 0
    ended: int = 0
    """Pods that were ended or cancelled unused."""
    over: float = 0.0
    """Pods above the position that was decided, at most, of that position."""
    decided_by: list[str] = []
    """The managers that decided, one after another."""
    bell_us: list[float] = []
    """What a manager worked for each bell: successor made due and planned. Microseconds."""
    claim_us: list[float] = []
    """What it worked for each claim: record read and taken in. Microseconds."""


class Fleet:
    """A pool under a load."""

    def __init__(self, spec: PoolSpec, managers: int, *, lead_s: float, seed: int = 1) -> None:
        """Begin without pods.

        Args:
            spec: of the pool; it has a promise.
            managers: how many pool-managers.
            lead_s: how long a pod takes to start, on average.
            seed: of all that is drawn.
        """
        self.spec = spec
        self.managers = [Manager(f"pm-{number}", spec) for number in range(1, managers + 1)]
        self.told = Told()
        self.now = 0.0
        self._lead_s = lead_s
        self._draws = random.Random(f"fleet {seed}")
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count(1)
        self._stored: dict[str, int] = {}
        """Slot, or the pool's stock -> sequence of its record."""
        self._decided = spec.stock
        self.warm: deque[str] = deque()
        self.starting: set[str] = set()
        self.waiting: deque[Origin] = deque()
        self._bound: set[str] = set()
        """Pods with a session: they keep it."""
        for manager in self.managers:
            for every_s, act in (
                (BEAT_S, self._beat), (TICK_S, self._tick), (LOOK_S, self._look), (NODE_S, self._node),
            ):  # fmt: skip
                self._repeat(self._draws.uniform(0, every_s), every_s, manager, act)

    @property
    def over(self) -> int:
        """Return how many pods are warm or starting beyond those that wait and the position that was decided."""
        return len(self.warm) + len(self.starting) - len(self.waiting) - self._decided

    def decider(self) -> Manager | None:
        """Return the manager that decides the stock."""
        return next((one for one in self.managers if one.lives and one.stock.decides), None)

    def load(self, rate_per_s: float, begin_s: float, end_s: float) -> None:
        """Let activations come at random."""
        at = begin_s + self._draws.expovariate(rate_per_s)
        while at < end_s:
            self._at(at, self._arrives)
            at += self._draws.expovariate(rate_per_s)

    def run(self, until_s: float) -> None:
        """Let everything happen up to then."""
        while self._events and self._events[0][0] <= until_s:
            self.now, _, act = heapq.heappop(self._events)
            act()
            if self._decided:
                self.told.over = max(self.told.over, self.over / self._decided)
        self.now = until_s

    # ------------------------------------------------------------------------------------------ servers and pods, played

    def _at(self, at: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at, next(self._number), act))

    def _repeat(
        self, at: float, every_s: float, manager: Manager, act: Callable[[Manager], None]
    ) -> None:
        def again() -> None:
            if manager.lives:
                act(manager)
                self._repeat(self.now + every_s, every_s, manager, act)

        self._at(at, again)

    def _to_all(self, hear: Callable[[Manager], None], *, but: Manager | None = None) -> None:
        for manager in self.managers:
            if manager is not but:
                self._to(manager, hear)

    def _to(self, manager: Manager, hear: Callable[[Manager], None]) -> None:
        def heard() -> None:
            if manager.lives:
                hear(manager)

        self._at(self.now + self._draws.uniform(*HOP_S), heard)

    def _write(self, key: str, expected_seq: int) -> int | None:
        """Compare and set; return the new sequence, None: somebody else was first."""
        if self._stored.get(key, 0) != expected_seq:
            return None
        self._stored[key] = next(self._number)
        return self._stored[key]

    def _arrives(self) -> None:
        task = f"task-{next(self._number):010d}"
        origin = Origin(
            session=task, tenant=TENANT, pool=self.spec.name, lane=KLASS, accepted_ms=self._wall_ms()
        )  # fmt: skip
        self._to_all(self._hear_bell)
        self.told.claims += 1
        if self.warm:
            self._claims(self.warm.popleft(), origin)
        else:
            self.told.waited += 1
            self.waiting.append(origin)

    def _claims(self, pod: str, origin: Origin) -> None:
        self._bound.add(pod)
        record = transitions.create(origin, owner=pod, node=NODE, now_ms=self._wall_ms())
        body, seq = messages.encode(record), next(self._number)
        self._at(
            self.now + HOP_S[1], lambda: self._to_all(lambda one: self._hear_claim(one, body, seq))
        )

    def _becomes_warm(self, pod: str) -> None:
        if pod not in self.starting:
            return
        self.starting.discard(pod)
        beat = WorkerBeat(worker=pod, pool=self.spec.name, node=NODE, state="warm")
        body = messages.encode(beat)
        self._to_all(lambda one: self._hear_worker(one, body))
        if self.waiting:
            self._claims(pod, self.waiting.popleft())
        else:
            self.warm.append(pod)

    def _ends(self, pod: str) -> None:
        if pod in self.warm:
            self.warm.remove(pod)
        elif pod not in self.starting:
            return
        self.starting.discard(pod)
        self.told.ended += 1
        body = messages.encode(PodGone(pod=pod, node=NODE, cause="deleted"))
        self._to_all(lambda one: self._hear_gone(one, body))

    # --------------------------------------------------------------------------------------------------- what managers hear

    def _hear_bell(self, manager: Manager) -> None:
        began = time.thread_time_ns()
        manager.stock.rang(KLASS)
        manager.slots.rang(KLASS)
        manager.stock.supply.fill(self.now)
        self._plan(manager)
        self.told.bell_us.append((time.thread_time_ns() - began) / 1000)

    def _hear_claim(self, manager: Manager, body: bytes, seq: int) -> None:
        began = time.thread_time_ns()
        manager.world.on_record(messages.decode(body, Record), seq, now=self.now)
        self._plan(manager)
        self.told.claim_us.append((time.thread_time_ns() - began) / 1000)

    def _hear_worker(self, manager: Manager, body: bytes) -> None:
        manager.world.on_worker(messages.decode(body, WorkerBeat), self.now)

    def _hear_gone(self, manager: Manager, body: bytes) -> None:
        manager.world.on_gone(self.spec.name, messages.decode(body, PodGone), self.now)

    def _hear_slot(self, manager: Manager, body: bytes, seq: int) -> None:
        manager.world.on_slot(messages.decode(body, Slot), seq, self.now)

    def _hear_stock(self, manager: Manager, body: bytes, seq: int) -> None:
        manager.world.on_stock(messages.decode(body, StockRecord), seq, self.now)
        self._plan(manager)

    def _hear_manager(self, manager: Manager, body: bytes) -> None:
        manager.world.peers.heard(messages.decode(body, ManagerBeat), self.now)

    # ---------------------------------------------------------------------------------------------------- what managers do

    def _beat(self, manager: Manager) -> None:
        body = messages.encode(ManagerBeat(manager=manager.name))
        self._to_all(lambda one: self._hear_manager(one, body), but=manager)

    def _node(self, manager: Manager) -> None:
        there = tuple(self.starting.union(self.warm, self._bound))
        beat = NodeBeat(
            node=NODE, started_ms=1, pods=there, capacity=1_000_000, isolation={"namespace": ""}
        )
        manager.world.on_node(beat, self.now)
        for pod in self.warm:  # that none falls silent is all that matters here
            manager.slots.heard(pod, bound=False, now=self.now)

    def _tick(self, manager: Manager) -> None:
        stock = manager.stock
        record = stock.tick(manager.world.peers, bound=0, minute_of_week=0, now=self.now)
        if record is not None:
            seq = self._write("stock", stock.seq or 0)
            if seq is not None:
                if self.told.decided_by[-1:] != [manager.name]:
                    self.told.decided_by.append(manager.name)
                self._decided = record.position
                stock.wrote(record, seq, self.now)
                body = messages.encode(record)
                self._to_all(lambda one: self._hear_stock(one, body, seq), but=manager)
        self._plan(manager)

    def _look(self, manager: Manager) -> None:
        facts = manager.world.facts(manager.slots, manager.reserving)
        for end in manager.stock.surplus(facts, self.now):
            self._at(self.now + HOP_S[1], partial(self._ends, end.pod))
        self._plan(manager)

    def _plan(self, manager: Manager) -> None:
        if not manager.slots.due:
            return
        facts = manager.world.facts(manager.slots, manager.reserving)
        for start in starts(manager.slots, facts, Clock(self.now, self._wall_ms())):
            manager.reserving.add(start.slot.slot)
            self._to(manager, partial(self._reserve, start))

    def _reserve(self, start: Start, manager: Manager) -> None:
        slot = start.slot
        seq = self._write(slot.slot, start.expected_seq)
        if seq is None:
            manager.world.nodes.not_asked(slot.pod)
            manager.reserving.discard(slot.slot)
            return
        self.told.started += 1
        self.starting.add(slot.pod)
        body = messages.encode(slot)
        self._to_all(lambda one: self._hear_slot(one, body, seq), but=manager)

        def answered(one: Manager) -> None:
            one.reserving.discard(slot.slot)
            one.slots.apply(slot, seq, fate=None, now=self.now)

        self._to(manager, answered)
        lead_s = self._lead_s * self._draws.lognormvariate(-0.03, 0.25)
        self._at(self.now + max(lead_s, 2 * HOP_S[1]), lambda: self._becomes_warm(slot.pod))

    def _wall_ms(self) -> int:
        return 1 + int(self.now * 1000)
