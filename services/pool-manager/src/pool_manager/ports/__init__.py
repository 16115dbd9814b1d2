"""What the loops need from outside. `adapters` implements these, `app` joins them.

Errors of all writes, each tried once: Conflict (surely not done: somebody else wrote), Unavailable (surely not done)
and OutcomeUnknown (may have been done). Reads come from the leader and raise Unavailable or OutcomeUnknown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

import msgspec

from pool_manager.core.balance import Move, Seat
from pool_manager.core.ends import Came
from pool_manager.core.peers import ManagerBeat
from pool_manager.core.stocks import StockRecord
from shared.messages import CancelAnswer, CancelOrder, PodSpec, Slot, TaskResult
from shared.quota import FullTenants
from shared.record import Record
from shared.traces.context import Context


class Known(msgspec.Struct, frozen=True):
    """A record as a stream has it."""

    record: Record
    seq: int
    stored_ms: int = 0


class Entry(msgspec.Struct, frozen=True):
    """One inbox entry."""

    tenant: str
    session: str
    task: str
    seq: int
    accepted_ms: int
    klass: str | None = None
    """Class that it asks for; None: the session's own, or none that there is."""
    body: bytes = b""
    replay_of: str = ""
    trace: Context | None = None

    @property
    def came(self) -> Came:
        """How it came."""
        return Came(self.accepted_ms, self.replay_of)


class LaneMessage(msgspec.Struct, frozen=True):
    """One message that waits in a lane, or is in a worker's hands."""

    shard: int
    tenant: str
    pool: str
    klass: str
    seq: int
    accepted_ms: int
    body: bytes
    token: str | None
    """Session that wants a worker; None: a plain task message."""
    message_id: str | None
    replay_of: str = ""
    trace: Context | None = None


class Truth(Protocol):
    """Records, results and inboxes."""

    async def read(self, tenant: str, session: str) -> Known | None:
        """Return a session's record, whichever pool it is in."""
        ...

    async def answers(self, shard: int, timeout_s: float) -> bool:
        """Return whether a state shard has a leader that answers in time."""
        ...

    async def write(self, record: Record, expected_seq: int) -> int:
        """Write a record by compare-and-set; return its new sequence."""
        ...

    async def end(self, record: Record, expected_seq: int, result: TaskResult) -> int:
        """Write record and result in one batch, the result only if there is none; return the record's sequence."""
        ...

    async def put_result(self, result: TaskResult) -> None:
        """Write a result, only if there is none."""
        ...

    async def result(self, tenant: str, session: str, task: str) -> TaskResult | None:
        """Return a task's result."""
        ...

    async def next_entry(self, tenant: str, session: str, after_seq: int) -> Entry | None:
        """Return the session's inbox entry that follows stream sequence `after_seq`."""
        ...

    async def entry(self, tenant: str, session: str, task: str) -> Entry | None:
        """Return a task's inbox entry."""
        ...

    async def payload(self, record: Record) -> bytes | None:
        """Return the body of a session's first task."""
        ...

    async def inbox_subjects(self, shard: int) -> list[tuple[str, str, str]]:
        """Return (tenant, session, task) of every inbox entry of a shard."""
        ...

    async def next_of_tenant(self, shard: int, tenant: str, after_seq: int) -> Entry | None:
        """Return the inbox entry of any of a tenant's sessions that follows stream sequence `after_seq`."""
        ...

    async def remove_entry(self, shard: int, seq: int) -> None:
        """Remove one inbox entry by its stream sequence."""
        ...

    async def purge_inbox(self, tenant: str, session: str, position: int) -> None:
        """Remove the session's inbox entries up to stream sequence `position`."""
        ...

    def scan(self, shard: int, after_seq: int) -> AsyncIterator[Known]:
        """Read the records of a shard that were written after `after_seq`, in order. A replica may lag behind."""
        ...

    async def purge_results(self, shard: int, older_than_ms: int) -> int:
        """Remove a shard's results that were stored before then; return how many."""
        ...

    async def next_record(self, shard: int, after_seq: int) -> Known | None:
        """Return the shard's record that follows stream sequence `after_seq`."""
        ...

    async def remove_record(self, record: Record) -> None:
        """Remove an ended session's record and first payload."""
        ...


class Queue(Protocol):
    """The lanes as a pool-manager sees them."""

    async def send_token(self, record: Record, message_id: str) -> None:
        """Put a token into the lane of the record's pool, on its home shard or the next that answers."""
        ...

    async def counts(self, shard: int) -> dict[tuple[str, str], int]:
        """Return how many messages each (pool, class) has in this shard, those in workers' hands included."""
        ...

    async def undelivered(self, shard: int, pool: str, klass: str) -> int:
        """Return how many messages of a lane nobody has been handed yet."""
        ...

    async def next_message(
        self, shard: int, pool: str, klass: str, after_seq: int
    ) -> LaneMessage | None:
        """Return the lane's message that follows stream sequence `after_seq`."""
        ...

    async def remove(self, shard: int, seq: int) -> None:
        """Take a message off its lane."""
        ...

    async def ring(self, pool: str, klass: str, shard: int) -> None:
        """Ring the lane's bell once."""
        ...


class SlotStore(Protocol):
    """Slot records."""

    async def reserve(self, slot: Slot, expected_seq: int) -> int:
        """Write a slot's record by compare-and-set; return its new sequence."""
        ...

    async def read(self, pool: str, slot: str) -> tuple[Slot, int] | None:
        """Return a slot's record and its sequence."""
        ...

    async def drop(self, slot: str, seq: int) -> None:
        """Remove a slot's record by its sequence."""
        ...

    def scan(self) -> AsyncIterator[tuple[Slot, int]]:
        """Read all slot records."""
        ...


class StockStore(Protocol):
    """What was decided for the stock of pools with a promise."""

    async def write(self, record: StockRecord, expected_seq: int) -> int:
        """Write it by compare-and-set; return its sequence."""
        ...

    async def read(self, pool: str) -> tuple[StockRecord | None, int] | None:
        """Return what was decided last, and its sequence; None in its place: what is stored there can't be read."""
        ...


class Workers(Protocol):
    """Requests to bound workers."""

    async def cancel(self, worker: str, order: CancelOrder) -> CancelAnswer:
        """Ask the owner to end a task.

        Raises:
            Unavailable: no such worker listens.
            OutcomeUnknown: no answer.
        """
        ...


class Mint(Protocol):
    """Makes pods' specs complete: credential, servers, settings."""

    full_tenants: tuple[str, ...]
    """Tenants that get no new session: new workers are told at once."""

    def pod_spec(
        self,
        slot: Slot,
        isolation: str,
        lanes: tuple[tuple[str, int], ...],
        public_key: str | None = None,
    ) -> PodSpec:
        """Return what a node needs to start the slot's pod, or what its worker needs that made its own key.

        Raises:
            Forbidden: that is no key.
        """
        ...

    def renew(self, token: str, pool: str, pod: str) -> str:
        """Return a JWT that follows a pod's present one; raises Forbidden if `token` is not that pod's."""
        ...


class Leaders(Protocol):
    """Who leads which stream and consumer."""

    async def look(self) -> list[Seat]:
        """Return all seats."""
        ...

    async def move(self, move: Move) -> None:
        """Have a seat led by another of its servers."""
        ...


class Voice(Protocol):
    """What this pool-manager says to the others."""

    async def beat(self, beat: ManagerBeat) -> None:
        """Say that it lives."""
        ...

    async def full(self, said: FullTenants) -> None:
        """Tell workers which tenants get no new session."""
        ...

    async def say_down(self, shards: tuple[int, ...]) -> None:
        """Say to all, clients too, which state shards have no leader."""
        ...


class Heard(Protocol):
    """A message from the bus."""

    @property
    def subject(self) -> str:
        """Where it was published."""
        ...

    @property
    def data(self) -> bytes:
        """Its body."""
        ...

    @property
    def headers(self) -> Any:
        """Its headers, a mapping."""
        ...

    @property
    def reply(self) -> str:
        """Where an answer is awaited."""
        ...


class Replies(Protocol):
    """Answers to requests."""

    async def answer(self, reply: str, body: bytes) -> None:
        """Answer a request."""
        ...
