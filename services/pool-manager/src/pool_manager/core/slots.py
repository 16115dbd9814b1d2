"""The slots of one pool: which pod fills each, and which slots want a successor.

A pool with stock N has the slots "0" to "N-1". A slot's record names its pod, `<pool>-<slot>-<generation>`; whoever
writes the next generation by compare-and-set starts the next pod, so two pool-managers never start two for one slot. A
pool with stock 0 has a slot for each queue message, "d<shard>-<sequence>", made when the message rings its bell. A pool
with a promise has as many slots as `pool_manager.core.supply` makes due, the lowest free numbers first.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Literal

import msgspec

from pool_manager.core.pace import STEADY_S, Pace
from pool_manager.core.turns import Lane, Turns
from pool_manager.core.waits import Flow
from shared.messages import Slot
from shared.pools import PoolSpec

Phase = Literal["starting", "warm", "ending", "taken", "gone"]
SILENT_S = 8.0
"""Warm workers beat every 2 s; after three and a fence one is given up."""
LEFT_ALONE_S = 2.0
"""A reserved name whose pool-manager died gets no pod after so long."""
ABSENT_S = 0.6
"""A node names its pods every 0.5 s."""
RECORD_S = 10.0
"""A record that was not heard so long after its worker's word will not come: it was missed."""
KEPT_S = 10.0
"""How long a slot of its own message is kept after its pod is gone."""
STARTED_KEPT = 1024
ENDING_S = 10.0
"""A pod that is to end and still says so long that it is warm is counted as that again."""
HOLD_S = (1.0, 30.0)
"""First and longest wait of a whole pool that is not allowed (any more of) its pods."""


class SlotRow(msgspec.Struct):
    """One slot and its present pod."""

    slot: Slot
    seq: int
    """Stream sequence of the slot's record."""
    phase: Phase
    since: float
    """Monotonic clock of the present phase."""
    heard: float | None = None
    """Last heartbeat of the pod's worker."""
    created_at: float | None = None
    """When its node had surely started it."""


class Due(msgspec.Struct):
    """A slot that wants a pod."""

    since: float
    lane: Lane | None = None


class Slots:
    """Slots of one pool. Pure bookkeeping: times are arguments."""

    def __init__(self, spec: PoolSpec) -> None:
        """Start empty."""
        self.spec = spec
        self.target = spec.stock
        """How many slots of the stock there are; with a promise what warm + starting - waiting is to be."""
        self.refill: Callable[[float], None] | None = None
        """With a promise: makes due what is missing; called after each change, with the monotonic clock."""
        self.freed: list[str] = []
        """With a promise: slots that lost their pod since `refill` looked."""
        self.rows: dict[str, SlotRow] = {}
        self.due: dict[str, Due] = {}
        self.count: Counter[str] = Counter()
        self._unrecorded: dict[str, float] = {}
        """Pod that says that it has a session, of which no record was heard yet -> since when."""
        self._by_pod: dict[str, str] = {}
        self.pace = Pace()
        self.flow = Flow()
        self.open_since: float | None = None
        """Since when there is room below `pods_max`."""
        self.reason = ""
        """Why the stock is not full."""
        self.stuck = ""
        """Why pods that were asked for do not start."""
        self.held_until = float("-inf")
        """No pod is asked for before then."""
        self.refusals = 0
        self.unclaimed = 0
        """About how many messages rang lately that no worker has claimed."""
        self.turns = Turns(spec.batch_first_every)
        self.rung: Counter[str] = Counter()
        """Class -> messages that were stored in the pool's lanes, as far as they were heard."""
        self.waiting: Counter[str] = Counter()
        """Class -> messages that were in the pool's lanes at the last look."""
        self.waits = 0
        """Messages that rang, or were seen in the lanes, and that no worker has claimed."""
        self.started_s: deque[float] = deque(maxlen=STARTED_KEPT)
        """How long each of the last pods took until its worker was heard, seconds."""
        self.learned_s: deque[float] = deque(maxlen=STARTED_KEPT)
        """The same, for the pool's policy."""

    @property
    def on_demand(self) -> bool:
        """Whether pods are started for messages only."""
        return self.spec.stock == 0 and self.spec.promise is None

    def is_wanted(self, name: str) -> bool:
        """Return whether the pool's stock has this slot."""
        if self.spec.promise is not None:
            return name.isdecimal()  # how many there are is counted, not numbered
        return name.isdecimal() and int(name) < self.target

    def has_pod(self, pod: str) -> bool:
        """Return whether a slot's present pod is this one."""
        return pod in self._by_pod

    def pods(self) -> set[str]:
        """Return the present pods of all slots."""
        return set(self._by_pod)

    def apply(self, slot: Slot, seq: int, *, fate: Phase | None, now: float) -> bool:
        """Take in a slot's record as stored; return whether it is news.

        Args:
            slot: the record.
            seq: its stream sequence.
            fate: what is known of the pod already; None: nothing.
            now: monotonic clock.
        """
        row = self.rows.get(slot.slot)
        if row is not None and row.seq >= seq:
            return False
        if row is not None and row.slot.pod == slot.pod:
            row.slot, row.seq = slot, seq  # the same pod: it has its credential now
            return False
        self.forget(slot.slot)
        row = SlotRow(slot, seq, "starting", now)
        self.rows[slot.slot] = row
        self._by_pod[slot.pod] = slot.slot
        self.count["starting"] += 1
        if fate is not None:
            self._move(row, fate, now)
        return True

    def forget(self, name: str) -> None:
        """The slot's record is gone, or is about to be replaced."""
        row = self.rows.pop(name, None)
        self.due.pop(name, None)
        if row is not None:
            self.count[row.phase] -= 1
            self._by_pod.pop(row.slot.pod, None)
            if self.refill is not None:
                self.freed.append(name)

    def created(self, pod: str, now: float) -> None:
        """The node said that it started the pod."""
        self.refusals = 0
        if (row := self.row_of(pod)) is not None and row.created_at is None:
            row.created_at = now

    def hold(self, why: str, now: float) -> None:
        """Whoever starts pods may start none for this pool: ask again later, less and less often."""
        if now < self.held_until:
            return  # others of those that were asked for at once
        wait_s = min(HOLD_S[0] * 2.0 ** min(self.refusals, 16), HOLD_S[1])
        self.refusals += 1
        self.held_until = now + wait_s
        self.reason = why

    def heard(self, pod: str, *, bound: bool, now: float) -> bool:
        """Take in a heartbeat of a pod; return whether its slot is due by that."""
        row = self.row_of(pod)
        if row is None:
            return False
        row.heard = now
        if bound:
            if row.phase in ("taken", "gone"):
                return False
            self._unrecorded[pod] = now
            return self._taken(row, now)
        if row.phase == "ending" and now - row.since > ENDING_S:
            self._move(row, "warm", now)
        if row.phase in ("starting", "gone"):  # given up for its silence, and there after all
            self.due.pop(row.slot.slot, None)
            if row.phase == "starting":
                self.started_s.append(now - row.since)
                self.learned_s.append(now - row.since)
                self.flow.started(now - row.since)
            self._move(row, "warm", now)
        elif row.phase == "warm" and now - row.since > STEADY_S:
            self.pace.forgive(row.slot.slot)
        return False

    def rang(self, klass: str) -> None:
        """A message was stored in one of the pool's lanes."""
        self.unclaimed += 1
        self.waits += 1
        self.rung[klass] += 1

    def stands(self, backlog: int) -> None:
        """So many messages wait for some time already; of those that rang lately some have ended elsewhere."""
        self.unclaimed = max(self.unclaimed // 2, backlog)

    @property
    def is_starved(self) -> bool:
        """Whether as many messages may wait as there are warm workers: some rang when nobody was there to hear."""
        return self.unclaimed >= max(self.count["warm"], 1)

    def taken(self, pod: str, now: float) -> bool:
        """The record of the pod's session was heard; return whether its slot is due by that."""
        self._unrecorded.pop(pod, None)
        row = self.row_of(pod)
        return row is not None and row.phase not in ("taken", "gone") and self._taken(row, now)

    def gone(self, pod: str, now: float) -> bool:
        """The pod is no more, or never came; return whether its slot is due by that."""
        self._unrecorded.pop(pod, None)
        row = self.row_of(pod)
        if row is None or row.phase == "gone":
            return False
        if row.phase == "starting" or (row.phase == "warm" and now - row.since <= STEADY_S):
            self.pace.failed(row.slot.slot)
        self._move(row, "gone", now)
        return self._is_due(row)

    def ending(self, pod: str, now: float) -> None:
        """The pod is one too many, and is being ended: it counts no more."""
        if (row := self.row_of(pod)) is not None:
            self._move(row, "ending", now)

    def _is_due(self, row: SlotRow) -> bool:
        return bool(self.due) if self.refill else row.slot.slot in self.due

    def unrecorded(self, now: float) -> int:
        """Return how many pods say that they have a session of which no record was heard: the two come by different ways."""
        for pod in [pod for pod, since in self._unrecorded.items() if now - since > RECORD_S]:
            del self._unrecorded[pod]
        return len(self._unrecorded)

    def demand(self, name: str, lane: Lane, *, again: bool, now: float) -> None:
        """A message of this lane wants a pod.

        Args:
            name: slot of the message.
            lane: where it waits.
            again: it still waits although its pod was taken or is gone: it gets another one.
            now: monotonic clock.
        """
        row = self.rows.get(name)
        if name in self.due or (
            row is not None and (row.phase in ("starting", "warm") or not again)
        ):
            return
        self.due[name] = Due(now + self.pace.back_off_s(name), lane)

    def want(self, name: str, now: float) -> None:
        """A slot of the stock has no pod."""
        self.due.setdefault(name, Due(now + self.pace.back_off_s(name)))

    def why(self, now: float) -> str:
        """Return why the stock is not full, or why pods that were asked for do not start, and what comes next."""
        if not self.reason:
            return self.stuck
        due = min((due.since for due in self.due.values()), default=now)
        wait_s = max(due, self.held_until) - now
        if wait_s > 1 or now < self.held_until:
            return f"{self.reason} (next try in {max(wait_s, 1):.0f} s)"
        return self.reason

    def row_of(self, pod: str) -> SlotRow | None:
        """Return the slot whose present pod is this one."""
        name = self._by_pod.get(pod)
        return None if name is None else self.rows[name]

    def _taken(self, row: SlotRow, now: float) -> bool:
        self.unclaimed = max(self.unclaimed - 1, 0)
        self.waits = max(self.waits - 1, 0)
        self.pace.forgive(row.slot.slot)
        self.pace.claimed(now)
        self.flow.claimed(now)
        self._move(row, "taken", now)
        return self._is_due(row)

    def _move(self, row: SlotRow, phase: Phase, now: float) -> None:
        self.count[row.phase] -= 1
        self.count[phase] += 1
        row.phase = phase
        row.since = now
        if self.refill is not None:
            if phase in ("taken", "gone"):
                self.freed.append(row.slot.slot)
            self.refill(now)
        elif phase in ("taken", "gone") and self.is_wanted(row.slot.slot):
            self.want(row.slot.slot, now)
