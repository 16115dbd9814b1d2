"""What a pool needs now: pods to start, pods to end, slots to forget. Decisions come back as data."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pool_manager.core.nodes import Nodes, Place
from pool_manager.core.peers import Peers
from pool_manager.core.slots import (
    ABSENT_S,
    KEPT_S,
    LEFT_ALONE_S,
    SILENT_S,
    Due,
    SlotRow,
    Slots,
)
from pool_manager.core.turns import Lane
from shared.messages import Slot

FIRST_GENERATIONS = 100_000
HUNG_S = 10.0
"""A pod that its node has, whose worker was heard and says nothing for so long, is given up."""
NEAR_CAP = 32
"""So near to `pods_max` one pool-manager starts all pods of a pool: two that do not see each other's newest
reservations would pass it. More than one has under way at once."""


class Start(msgspec.Struct, frozen=True):
    """Reserve the slot's next pod by compare-and-set, then start it."""

    slot: Slot
    expected_seq: int
    isolation: str
    lanes: tuple[Lane, ...]


class End(msgspec.Struct, frozen=True):
    """End a warm pod that nothing wants."""

    pod: str
    node: str


class Drop(msgspec.Struct, frozen=True):
    """Delete a slot's record: its pod is gone and it gets no other."""

    slot: str
    seq: int


class Clock(msgspec.Struct, frozen=True):
    """Both clocks, read once."""

    now: float
    """Monotonic, seconds."""
    wall_ms: int
    """Milliseconds since 1970."""


class Times(msgspec.Struct, frozen=True):
    """Bounds that an operator may set, seconds."""

    start_s: float = 10.0
    spare_s: float = 10.0


class Facts(msgspec.Struct, frozen=True):
    """What a plan looks at beside the pool's own slots."""

    peers: Peers
    nodes: Nodes
    bound: int
    """Pods of the pool that have a session."""
    started_ms: int = 0
    """Start of this pool-manager, wall clock: it does nothing that its former self had in hand."""
    busy: frozenset[str] | set[str] = frozenset()
    """Slots on which an act is under way."""
    hearing_since: float = float("-inf")
    """Silence before that proves nothing (monotonic clock)."""


def look_over(slots: Slots, facts: Facts, times: Times, now: float) -> None:
    """Notice what no event tells: pods that never came, went silent, or are not on their node; empty slots."""
    for row in list(slots.rows.values()):
        if is_lost(row, facts, times, now):
            facts.nodes.not_asked(row.slot.pod)
            slots.gone(row.slot.pod, now)
    if slots.refill is not None:
        slots.refill(now)
        return
    for index in range(slots.target):
        name = str(index)
        row_ = slots.rows.get(name)
        if row_ is None or row_.phase in ("taken", "gone"):
            slots.want(name, now)


def is_lost(row: SlotRow, facts: Facts, times: Times, now: float) -> bool:
    """Return whether a pod that should be starting or warm is not there."""
    if row.phase not in ("starting", "warm", "ending"):
        return False
    slot = row.slot
    node = facts.nodes.get(slot.node)
    if row.phase == "ending":
        is_there = (
            node is not None and slot.pod in node.pods and facts.nodes.is_alive(slot.node, now)
        )
        return not is_there and now - row.since > SILENT_S
    if node is not None and slot.pod in node.pending:
        return False  # its node sees to it that this ends
    since = max(row.since, facts.nodes.ran_since(slot.pod), facts.hearing_since)
    age_s, silent_s = now - since, now - max(row.heard or since, since)
    if node is not None and slot.pod in node.pods and facts.nodes.is_alive(slot.node, now):
        # One that was heard already has no start any more that could take long.
        start_s = times.start_s if row.heard is None else min(times.start_s, HUNG_S)
        return silent_s > max(SILENT_S, start_s)
    if node is not None and node.started_ms > slot.reserved_ms:
        return True  # it was asked of the node's former process
    # Heartbeats that waited in a buffer may be older than the pod.
    created = None if row.created_at is None else max(row.created_at, facts.hearing_since)
    if node is not None and created is not None and node.seen > created + ABSENT_S:
        return True
    if row.phase == "warm":
        return silent_s > SILENT_S
    me = facts.peers.me
    if slot.manager == me and slot.reserved_ms < facts.started_ms:
        return age_s > LEFT_ALONE_S
    if slot.manager != me and slot.manager not in facts.peers.alive(now):
        return age_s > LEFT_ALONE_S
    return age_s > times.start_s


def starts(slots: Slots, facts: Facts, clock: Clock) -> list[Start]:
    """Return the pods to reserve and start now, as the caps, the nodes and the turn of this pool-manager allow."""
    spec = slots.spec
    if not slots.due:
        slots.reason = ""
        return []
    now = clock.now
    waits = slots.pace.lets_claims_go_first(now, warm=slots.count["warm"]) and not slots.is_starved
    if waits or now < slots.held_until:
        return []
    room_start, room_pods = _room(slots, facts, now)
    # Messages wait that nobody was free to hear: whoever comes now asks for the most urgent of them.
    pressed = room_pods < len(slots.due) if slots.on_demand else slots.is_starved
    planned: list[Start] = []
    for name, due in _in_turn(slots):
        row = slots.rows.get(name)
        slot = _next(slots, name, row, facts.peers.me, clock)
        if room_pods > NEAR_CAP:
            key, since = slot.pod, due.since
        elif facts.peers.is_settled(now):
            key, since = f"cap/{spec.name}", max(due.since, slots.open_since or now)
        else:
            continue
        if name in facts.busy or not facts.peers.may_act(key, since=since, now=now):
            continue
        if room_pods <= len(planned):
            slots.reason = f"pods_max {spec.pods_max} is reached"
            break
        if room_start <= len(planned):
            break
        place = facts.nodes.choose(spec.isolation, now)
        if not isinstance(place, Place):
            slots.reason = place
            break
        slots.reason = ""
        facts.nodes.asked(slot.pod, place.node)
        planned.append(
            Start(
                msgspec.structs.replace(slot, node=place.node),
                row.seq if row else 0,
                place.isolation,
                slots.turns.lanes() if pressed else (due.lane,) if due.lane else (),
            )
        )
    return planned


def _in_turn(slots: Slots) -> list[tuple[str, Due]]:
    """Return the slots that want a pod, those of the most urgent messages first, else as they came."""
    first = slots.turns.classes()
    return sorted(
        slots.due.items(), key=lambda item: first.index(item[1].lane[0]) if item[1].lane else 0
    )


def _room(slots: Slots, facts: Facts, now: float) -> tuple[int, int]:
    """Return how many pods may be started at once now, and how many more the pool may have."""
    spec, rows = slots.spec, slots.rows
    there = slots.count["starting"] + slots.count["warm"] + slots.unrecorded(now)
    reserving = sum(
        (row := rows.get(name)) is None or row.phase in ("taken", "gone") for name in facts.busy
    )
    room = spec.pods_max - there - facts.bound - reserving
    slots.open_since = None if room <= 0 else slots.open_since or now
    # The others, whose newest reservations are not seen yet, have about as many under way.
    by_others = reserving * len(facts.peers.alive(now))
    most = slots.pace.starting_max(
        now, spec.starting_max, warm=slots.count["warm"], stock=slots.target
    )
    return most - slots.count["starting"] - reserving - by_others, room


def _next(slots: Slots, name: str, row: SlotRow | None, me: str, clock: Clock) -> Slot:
    if row is not None:
        generation = row.slot.generation + 1
    elif slots.is_wanted(name):
        generation = 1
    else:
        # The record of an own slot is dropped with its pod. Should its message need a pod again after that, the pod's
        # name must be a new one, because a worker's name is its identity.
        generation = clock.wall_ms // 1000 % FIRST_GENERATIONS
    pod = f"{slots.spec.name}-{name}-{generation}"
    return Slot(
        pool=slots.spec.name,
        slot=name,
        generation=generation,
        pod=pod,
        node="",
        manager=me,
        reserved_ms=clock.wall_ms,
    )


def leftovers(slots: Slots, facts: Facts, times: Times, now: float) -> list[End | Drop]:
    """Return warm pods that nothing wants, and slots that may be forgotten; each is left to whose turn it is."""
    acts: list[End | Drop] = []
    for name, row in list(slots.rows.items()):
        if slots.is_wanted(name) or name in facts.busy or name in slots.due:
            continue
        age_s = now - row.since
        if row.phase == "warm" and age_s > times.spare_s:
            act: End | Drop = End(row.slot.pod, row.slot.node)
        elif row.phase in ("taken", "gone") and age_s > KEPT_S and not _is_there(row, facts):
            act = Drop(name, row.seq)
        else:
            continue
        if facts.peers.is_first(row.slot.pod, now):
            acts.append(act)
    return acts


def _is_there(row: SlotRow, facts: Facts) -> bool:
    node = facts.nodes.get(row.slot.node)
    return node is not None and row.slot.pod in node.pods


def strays(
    slots: Slots, warm: Iterable[tuple[str, str, float]], facts: Facts, now: float
) -> list[End]:
    """Return warm pods that no slot names: given up as lost, replaced, and there after all.

    Args:
        slots: the pool's slots.
        warm: (pod, node, first heard) of its warm workers.
        facts: whose turn it is.
        now: monotonic clock.
    """
    return [
        End(pod, node)
        for pod, node, first_heard in warm
        if not slots.has_pod(pod)
        and now - first_heard > LEFT_ALONE_S
        and facts.peers.is_first(pod, now)
    ]
