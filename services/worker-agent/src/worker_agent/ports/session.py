"""The queue, and the truth about sessions, as the worker's loops need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from shared.letters import DeadLetter
from shared.messages import TaskResult
from shared.record import Hold, Record
from shared.traces.context import Context
from worker_agent.core.claims import Headers
from worker_agent.core.lanes import Lane
from worker_agent.core.work import Taken


class Held(msgspec.Struct, kw_only=True):
    """A session that this worker owns: the record as last written or read, and its stream sequence."""

    record: Record
    seq: int
    payload: bytes | None = None
    """The first task's body, where it came with the claim."""
    origin: str = ""
    """Stream and sequence of the message that it came with."""
    taken: Taken | None = None
    """By what it came; None once a task has been run for it, or has been waited for."""
    trace: Context | None = None
    """The span of the newest attempt; None: it is not traced."""

    @property
    def hold(self) -> Hold:
        """What the owner believes."""
        return Hold(self.record.owner or "", self.record.epoch)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One inbox entry."""

    task: str
    seq: int
    body: bytes
    accepted_ms: int
    headers: Headers = Headers()


class Delivery(Protocol):
    """A message pulled from a lane."""

    subject: str
    data: bytes
    stream_seq: int
    time_ms: int
    """The servers' clock."""
    asked_ms: float
    """The worker's, when it asked for a message."""
    delivered_ms: float
    """The worker's."""

    @property
    def headers(self) -> Headers:
        """What the publisher said beside the body."""
        ...

    async def ack(self) -> None:
        """Take it off the queue."""
        ...

    async def give_back(self, delay_s: float) -> None:
        """Let another worker have it after `delay_s` seconds."""
        ...


class Lanes(Protocol):
    """The queue as an idle worker sees it."""

    async def listen(self, on_bell: Callable[[Lane], None]) -> None:
        """Join the group that hears the pool's bells."""
        ...

    async def leave(self) -> None:
        """Leave the group; bells heard after that are passed on."""
        ...

    async def ring(self, lane: Lane) -> None:
        """Pass a bell on to another idle worker."""
        ...

    async def pull(self, lane: Lane, *, wait: bool) -> Delivery | None:
        """Ask a lane for one message: for a moment, or only for one that is there already.

        Raises:
            Unavailable: the lane's shard does not answer.
        """
        ...


class Truth(Protocol):
    """Records, results and inboxes.

    Writes are tried once and raise Conflict (surely not done, somebody else wrote), Unavailable (surely not done) or
    OutcomeUnknown (may have been done). Reads come from the leader and raise Unavailable.
    """

    async def create(self, record: Record, payload: bytes) -> int:
        """Create record and payload in one batch; return the record's sequence."""
        ...

    async def read(self, tenant: str, session: str, pool: str) -> tuple[Record, int] | None:
        """Return the record and its sequence."""
        ...

    async def write(self, record: Record, expected_seq: int) -> int:
        """Write the record by compare-and-set; return its new sequence."""
        ...

    async def commit(self, record: Record, expected_seq: int, result: TaskResult) -> int:
        """Write result and record in one batch, the result only if there is none; return the record's sequence."""
        ...

    async def payload(self, record: Record) -> bytes | None:
        """Return the first task's body."""
        ...

    async def result_exists(self, record: Record, task: str) -> bool:
        """Return whether the task has its result."""
        ...

    async def next_entry(self, record: Record, after_seq: int) -> Entry | None:
        """Return the inbox entry that follows stream sequence `after_seq`."""
        ...

    async def server_ahead_ms(self, record: Record) -> int:
        """Return by how much the servers' clock is ahead of this machine's, as the record's last write shows."""
        ...

    async def bury(self, letter: DeadLetter, body: bytes) -> None:
        """Keep a message that cannot become a task as a dead letter; again for the same task, it is kept once."""
        ...
