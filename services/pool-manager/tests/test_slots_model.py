"""Two pool-managers, one store, one node: whatever the order of events, no slot has two pods, and all slots fill."""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from msgspec.structs import replace

from pool_manager.core.lost import Bounds
from pool_manager.core.peers import ManagerBeat
from pool_manager.core.plan import Clock, Start, Times, leftovers, look_over, starts
from pool_manager.core.world import World
from shared.messages import NodeBeat, PodGone, Slot, WorkerBeat
from shared.pools import PoolSpec
from shared.record import Record

STOCK = 3
STEP_S = 0.25


@dataclass
class Manager:
    """One pool-manager: what it knows, what it has not heard yet, what its hands are at."""

    world: World
    unheard: list[object] = field(default_factory=list)
    in_hand: list[Start] = field(default_factory=list)

    @property
    def slots(self) -> object:
        """Its view of the pool."""
        return self.world.pools["p"]


class TwoManagers(RuleBasedStateMachine):
    """The store decides; events come late and in pieces."""

    spec = PoolSpec(name="p", stock=STOCK, pods_max=100, starting_max=2)

    def __init__(self) -> None:
        """Start empty, with two pool-managers."""
        super().__init__()
        self.now = 100.0
        self.seq = 0
        self.store: dict[str, tuple[Slot, int]] = {}
        self.alive: dict[str, str | None] = {}
        """Pod -> session that it owns."""
        self.created: list[str] = []
        self.used_up = 0
        """Pods that were claimed or died."""
        self.records: dict[str, tuple[Record, int]] = {}
        self.claims = 0
        self.managers = [self.fresh(0), self.fresh(1)]

    def fresh(self, index: int) -> Manager:
        """Return a pool-manager that has just read the store."""
        manager = Manager(World(f"pm-{index}", [self.spec], Bounds(), self.now))
        for slot, seq in self.store.values():
            manager.world.on_slot(slot, seq, self.now)
        for record, seq in self.records.values():
            manager.world.on_record(record, seq, now=self.now)
        return manager

    def tell(self, event: object) -> None:
        """Everybody will hear of it."""
        for manager in self.managers:
            manager.unheard.append(event)

    def hear(self, manager: Manager, count: int) -> None:
        """Let a pool-manager hear the oldest events."""
        heard, manager.unheard = manager.unheard[:count], manager.unheard[count:]
        world = manager.world
        for event in heard:
            match event:
                case (Slot() as slot, int(seq)):
                    world.on_slot(slot, seq, self.now)
                case (Record() as record, int(seq)):
                    world.on_record(record, seq, now=self.now)
                case PodGone():
                    world.on_gone("p", event, self.now)
                case WorkerBeat():
                    world.on_worker(event, self.now)
                case NodeBeat():
                    world.on_node(event, self.now)
                case ManagerBeat():
                    world.peers.heard(event, self.now)

    def beat(self, pod: str) -> WorkerBeat:
        """Return what a pod's worker says of itself."""
        session = self.alive[pod]
        return WorkerBeat(
            worker=pod,
            pool="p",
            node="n",
            state="running" if session else "warm",
            session=session,
            tenant="t" if session else None,
            epoch=1,
        )

    def beats(self) -> None:
        """Everything that lives says so."""
        for pod in self.alive:
            self.tell(self.beat(pod))
        node = NodeBeat(
            node="n", started_ms=1, pods=tuple(self.alive), capacity=50, isolation={"namespace": ""}
        )
        self.tell(node)
        for index in range(len(self.managers)):
            self.tell(ManagerBeat(manager=f"pm-{index}"))

    @rule(index=st.integers(0, 1), count=st.integers(1, 5))
    def some_is_heard(self, index: int, count: int) -> None:
        """A few events arrive at one of them."""
        self.hear(self.managers[index], count)

    @initialize(filled=st.booleans())
    def begin(self, filled: bool) -> None:
        """From nothing, or from a full pool."""
        if filled:
            self.settle()

    @rule(index=st.integers(0, 1), acts=st.integers(0, 4), answered=st.booleans())
    def one_works(self, index: int, acts: int, answered: bool) -> None:
        """One of them looks at what is due, and does some of what it has in hand."""
        self.plan(index)
        for _ in range(acts):
            self.act(index, answered)

    def plan(self, index: int) -> None:
        """Put what is due into its hands."""
        manager = self.managers[index]
        slots = manager.world.pools["p"]
        facts = manager.world.facts(slots, {start.slot.slot for start in manager.in_hand})
        look_over(slots, facts, Times(), self.now)
        assert leftovers(slots, facts, Times(), self.now) == []
        manager.in_hand += starts(slots, facts, Clock(self.now, int(self.now * 1000)))

    def act(self, index: int, answered: bool) -> None:
        """It reserves, and if that held, asks the node; the node's answer may be lost."""
        manager = self.managers[index]
        if not manager.in_hand:
            return
        start = manager.in_hand.pop(0)
        slots = manager.world.pools["p"]
        slot = start.slot
        found = self.store.get(slot.slot)
        if (found[1] if found else 0) != start.expected_seq:
            assert found is not None
            manager.world.nodes.not_asked(slot.pod)
            manager.world.on_slot(*found, self.now)
            return
        self.seq += 1
        self.store[slot.slot] = (slot, self.seq)
        self.tell((slot, self.seq))
        slots.apply(slot, self.seq, fate=None, now=self.now)
        self.created.append(slot.pod)
        self.alive[slot.pod] = None
        if answered:
            slots.created(slot.pod, self.now)

    @precondition(lambda self: any(session is None for session in self.alive.values()))
    @rule(data=st.data(), says_so_first=st.booleans())
    def one_is_claimed(self, data: st.DataObject, says_so_first: bool) -> None:
        """A warm pod gets a session; its word of that and the record come by different ways."""
        pod = data.draw(st.sampled_from(sorted(p for p, s in self.alive.items() if s is None)))
        self.claims += 1
        session = f"session-{self.claims:04d}"
        self.alive[pod] = session
        self.used_up += 1
        if says_so_first:
            self.tell(self.beat(pod))
        record = Record(
            session=session,
            tenant="t",
            pool="p",
            state="running",
            lane="batch",
            client_lane="batch",
            keep=False,
            accepted_ms=1,
            epoch=1,
            owner=pod,
            node="n",
        )
        self.write(record)

    def write(self, record: Record) -> None:
        """Store a record."""
        self.seq += 1
        self.records[record.session] = (record, self.seq)
        self.tell((record, self.seq))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def one_dies(self, data: st.DataObject) -> None:
        """A pod ends; its session, if it had one, is closed."""
        pod = data.draw(st.sampled_from(sorted(self.alive)))
        session = self.alive.pop(pod)
        if session is None:
            self.used_up += 1
        else:
            self.write(replace(self.records[session][0], state="closed", owner=None))
        self.tell(PodGone(pod=pod, node="n", cause="exited"))

    @rule(index=st.integers(0, 1))
    def one_restarts(self, index: int) -> None:
        """It forgets everything but what the store holds; what it had in hand is never done."""
        self.managers[index] = self.fresh(index)

    @rule(steps=st.integers(1, 8))
    def time_passes(self, steps: int) -> None:
        """Whoever lives is heard at least four times a second."""
        for _ in range(steps):
            self.now += STEP_S
            self.beats()
            for manager in self.managers:
                self.hear(manager, len(manager.unheard))

    @invariant()
    def no_pod_is_started_twice(self) -> None:
        """A name is a worker's identity."""
        assert len(self.created) == len(set(self.created))

    @invariant()
    def no_pod_too_many(self) -> None:
        """One for each slot, and one more for each that was claimed or died."""
        assert len(self.created) <= STOCK + self.used_up

    def settle(self) -> None:
        """Left in peace, every slot fills."""
        for _ in range(200):
            self.time_passes(1)
            for index in (0, 1):
                self.plan(index)
                while self.managers[index].in_hand:
                    self.act(index, answered=True)
            bound = sum(session is not None for session in self.alive.values())
            if len(self.alive) - bound == min(STOCK, self.spec.pods_max - bound):
                return
        raise AssertionError(f"not full: {self.alive} {self.store}")

    @invariant()
    def not_over_the_cap(self) -> None:
        """`pods_max` holds for all pods together."""
        assert len(self.alive) <= self.spec.pods_max

    def teardown(self) -> None:
        """Whatever happened, the pool is full in the end, and nothing was started in vain."""
        self.settle()
        self.no_pod_is_started_twice()
        self.no_pod_too_many()


class TwoManagersNearTheCap(TwoManagers):
    """The same, where bound pods leave no room for the whole stock."""

    spec = PoolSpec(name="p", stock=STOCK, pods_max=STOCK + 1, starting_max=4)


EFFORT = settings(max_examples=100, stateful_step_count=30, deadline=None)
TwoManagers.TestCase.settings = EFFORT
TwoManagersNearTheCap.TestCase.settings = EFFORT
TestTwoManagers = TwoManagers.TestCase
TestTwoManagersNearTheCap = TwoManagersNearTheCap.TestCase
