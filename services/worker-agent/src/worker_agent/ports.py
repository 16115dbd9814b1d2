"""What the worker's loops need from outside. `adapters` implements these, `app` joins them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from shared.files import ObjectRef, Transfer
from shared.letters import DeadLetter
from shared.messages import TaskResult, WorkerBeat
from shared.record import Hold, Record
from shared.terminals import TerminalAnswer
from shared.traces.span import Span
from worker_agent.core.claims import Headers
from worker_agent.core.lanes import Lane
from worker_agent.core.output import Piece, StreamName
from worker_agent.core.results import RunEnd, StopCause
from worker_agent.core.terminal import Keys
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


class Contact(Protocol):
    """The worker's connection, as its heartbeat and its fence see it."""

    def age_s(self) -> float:
        """Seconds since the last proof of contact, by the worker's own monotonic clock."""
        ...

    async def probe(self) -> bool:
        """Ask for a proof of contact now; return whether it came."""
        ...

    async def beat(self, beat: WorkerBeat) -> None:
        """Send a heartbeat.

        Raises:
            Unavailable: not connected.
        """
        ...


class Voice(Protocol):
    """What the worker tells while a task runs: best effort, never waits long, never fails."""

    async def output(self, record: Record, task: str, piece: Piece) -> None:
        """Publish a piece of output."""
        ...

    def said(self, record: Record, task: str) -> int:
        """Return how many messages this attempt of a task has sent; 0 before its first."""
        ...

    async def event(self, record: Record, task: str, name: str, **details: Any) -> None:
        """Publish an event: `started`, `progress`, `recovered`, `workspace_lost`, `truncated`."""
        ...


class Terminals(Protocol):
    """Where those who type into a task's terminal are heard."""

    def heard(
        self, record: Record, task: str, take: Callable[[Keys], TerminalAnswer]
    ) -> AbstractAsyncContextManager[None]:
        """While inside, have `take` answer what is said to the terminal of one task, and nobody else's."""
        ...


class ObjectSink(Protocol):
    """A new object. Each call may raise a ServiceError; what was not closed is nothing."""

    async def write(self, data: bytes) -> None:
        """Add content."""
        ...

    async def close(self) -> ObjectRef:
        """Store the rest; return the reference."""
        ...

    async def abandon(self) -> None:
        """End what is on the way."""
        ...


class Objects(Protocol):
    """One tenant's objects."""

    def read(self, reference: ObjectRef) -> AsyncGenerator[bytes, None]:
        """Yield an object's content; raises a ServiceError where it is not what the reference says."""
        ...

    def writer(self) -> ObjectSink:
        """Return what stores a new object."""
        ...


class Spans(Protocol):
    """Takes finished spans."""

    async def tell(self, spans: tuple[Span, ...]) -> None:
        """Hand spans to whoever exports them: best effort, never waits long, never fails."""
        ...


class Sandbox(Protocol):
    """The confined half of the pod."""

    @property
    def lost(self) -> bool:
        """Whether the sandbox is gone."""
        ...

    def prepare(self, *, python: bool) -> None:
        """Expect a task soon, perhaps of kind `python`. Runs nothing of anybody's."""
        ...

    async def run(self, order: RunOrder) -> RunEnd:
        """Do what a task asks; returns how it ended, also when `stop` ended it. Never raises for what user code does."""
        ...

    async def stop(self, cause: StopCause, limit: str = "") -> None:
        """End the user code that runs now, if any: first politely, then by force."""
        ...

    @property
    def room_bytes(self) -> int:
        """Bytes that the running task's terminal takes now; 0 where it has none."""
        ...

    def type(self, data: bytes) -> None:
        """Type into the running task's terminal; the caller keeps to `room_bytes`."""
        ...

    def resize(self, rows: int, cols: int) -> None:
        """Give it another size, in characters."""

    def hang_up(self) -> None:
        """Tell its programs that whoever sat there has left."""

    async def wait_lost(self) -> None:
        """Return when the sandbox is gone."""
        ...

    async def freeze(self) -> None:
        """Stop user code without ending it."""
        ...

    async def thaw(self) -> None:
        """Let user code go on."""
        ...

    async def close(self) -> None:
        """End the sandbox."""
        ...


class RunOrder(msgspec.Struct, kw_only=True):
    """One attempt for the sandbox."""

    task: Any
    """A decoded `shared.task.Task`."""
    env: dict[str, str]
    timeout_s: float
    deadline_left_s: float
    on_started: Callable[[float], Awaitable[None]]
    """Called with the wall clock (ms) at which the first instruction of user code ran."""
    on_output: Callable[[StreamName, bytes], Awaitable[None]]
    objects: Objects
    """The tenant's."""
    on_progress: Callable[[Transfer], Awaitable[None]]
    """Called a few times a second while a file moves between object store and workspace, and when it has."""
    restored_ms: float = 0
    """Set by the sandbox: wall clock at which the task's files were all in the workspace; 0: it brings none."""
