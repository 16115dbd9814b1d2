"""Messages between services, and the results that clients read. All carry a version and ignore unknown fields."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from shared.errors import ErrorInfo, InvalidMessage
from shared.files import FileEntry, OutputFile, Stream, Transfer
from shared.pools import PodLimits
from shared.recovery import Recovery

Status = Literal["ok", "failed", "cancelled", "expired", "rejected", "poison", "interrupted"]
"""`failed`: user code did not end well (`reason` says how). `interrupted`: perhaps in part. Else ended by us or on request."""

Reason = Literal[
    "exit_code", "signal", "oom", "timeout", "deadline", "limit", "exec", "file", "sandbox_lost",
    "session_ended", "unknown_session", "no_snapshot", "invalid", "deaths", "worker_lost", "requested",
]  # fmt: skip
"""Why a result is not `ok`."""

StartPath = Literal["warm", "on-demand", "bound"]
"""`warm`: a waiting worker took it. `on-demand`: a pod had to start. `bound`: its session had a worker, in its turn."""


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all messages: a version, and tolerant reading."""

    v: int = 1


class Interruption(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One loss of the worker in mid-task."""

    cause: str
    """What was seen: `process_exit`, `disconnect`, `heartbeats_missed`, `not_named`, …"""
    epoch: int
    """The epoch that was revoked."""
    worker: str
    revoked_ms: int
    """Wall clock of the revoking pool-manager, milliseconds since 1970."""
    silent_ms: int | None = None
    """Last sign of life until the revocation, milliseconds: an upper bound of the time to detect."""
    since_ms: int = 0
    """When the work that was interrupted began: its worker's claim, or the result before."""
    recovered_ms: int | None = None
    """Wall clock of the next owner when it went on."""
    unsaved_bytes: int | None = None
    """What the worker said last of that (see `WorkerBeat`)."""


class WorkspaceLost(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What completed tasks left in the session's files is gone, as far as no snapshot holds it."""

    cause: str
    epoch: int
    """Last epoch that had the lost workspace."""
    at_ms: int
    back_to_ms: int = 0
    """When the files were saved that the session goes on with; 0: it goes on with an empty workspace."""


class Interpreter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which interpreter ran a `python` task. A kept interpreter is memory: it does not outlive its pod."""

    generation: int
    fresh: str | None = None
    """Why this one is fresh, on its first task."""


class Timing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When things happened to the attempt that gave the result; wall clocks, milliseconds since 1970."""

    accepted_ms: int = 0
    """The stream's clock: PubAck of the task."""
    path: StartPath | None = None
    """None: no worker had it in hands."""
    delivered_ms: float = 0
    """What asked for a worker was handed to it; for a task of a bound session, the task itself."""
    claimed_ms: float = 0
    """The session was the worker's: its write of the record was acknowledged. For a bound session, as `delivered_ms`."""
    restored_ms: float = 0
    """The task's files were all in the workspace; 0: it brought none."""
    started_ms: float = 0
    """First instruction of user code."""
    finished_ms: float = 0


class TaskResult(Message, frozen=True, kw_only=True, omit_defaults=True):
    """The one terminal result of a task."""

    task: str
    session: str
    tenant: str
    status: Status
    reason: Reason | None = None
    kind: str = ""
    pool: str = ""
    exit_code: int | None = None
    signal: int | None = None
    error: ErrorInfo | None = None
    stdout: Stream = Stream()
    stderr: Stream = Stream()
    data: bytes | None = None
    """Content that a `read` returned; base64 in JSON."""
    size: int | None = None
    """Size of the file that a `read` read from, bytes."""
    entries: tuple[FileEntry, ...] | None = None
    truncated: bool = False
    """A listing that did not fit."""
    outputs: tuple[OutputFile, ...] = ()
    """Files of the workspace that are in the object store: those that `outputs` or `as_object` asked for."""
    epoch: int = 0
    attempt: int = 0
    worker: str = ""
    node: str = ""
    isolation: str = ""
    """The class that the sandbox really had."""
    timing: Timing = Timing()
    interruptions: tuple[Interruption, ...] = ()
    recovery: Recovery | None = None
    """How it went on after the newest of `interruptions`."""
    unsaved: ErrorInfo | None = None
    """Why what the task left in the workspace was not saved with its result."""
    workspace_lost: WorkspaceLost | None = None
    """Said once, in the first result after a loss."""
    interpreter: Interpreter | None = None
    replay_of: str = ""
    """The task that this one was a replay of, from the header `Agent-Replay-Of`."""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A NATS user: its JWT and the seed that signs the server's nonce. Never logged."""

    jwt: str
    seed: str

    def __repr__(self) -> str:
        """Hide the secret."""
        return "Credential(***)"


class PodSpec(Message, frozen=True, kw_only=True, omit_defaults=True):
    """What a node needs to start a pod."""

    pod: str
    pool: str
    node: str
    isolation: str
    limits: PodLimits
    credential: Credential
    lanes: tuple[tuple[str, int], ...] = ()
    """(class, shard) of lanes known to hold messages: the new worker asks them before it waits for a bell."""
    servers: tuple[str, ...] = ()
    settings: dict[str, str] = {}
    """Settings of the worker, as it would find them in its environment."""


class Answer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to a request between services."""

    ok: bool
    error: ErrorInfo | None = None


class NodeBeat(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A node's heartbeat."""

    node: str
    started_ms: int
    """Start of the node's process: a new value means that all former pods are gone."""
    pods: tuple[str, ...] = ()
    capacity: int = 0
    isolation: dict[str, str] = {}
    """Class -> empty if the node has it, else why not."""
    draining: bool = False
    pending: tuple[str, ...] = ()  # of `pods`: those that wait for a place or an image, unheard yet


class PodGone(Message, frozen=True, kw_only=True, omit_defaults=True):
    """All processes of a pod are gone; its node lives."""

    pod: str
    node: str
    cause: str
    """`exited`, `killed`, `oom`, `deleted`, `start_failed`, `sandbox_lost`, `zygote_lost`, `evicted`, `node_lost`"""
    exit_code: int | None = None
    signal: int | None = None
    detail: str = ""
    stopped: bool = False  # its kubelet itself has said of each of its containers that it has ended


class DeletePod(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Request to a node to end a pod."""

    pod: str
    grace_s: Annotated[float, Meta(ge=0, le=300)] = 5.0


WorkerState = Literal[
    "warm", "claimed", "restoring", "running", "idle", "saving", "draining", "frozen"
]


class WorkerBeat(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A worker's heartbeat. It names what the worker believes it owns."""

    worker: str
    pool: str
    node: str
    state: WorkerState
    session: str | None = None
    tenant: str | None = None
    epoch: int = 0
    task: str | None = None
    isolation: str = ""
    network: str = ""
    """What its sandbox has of it, `loopback` or `none`, where that is not a matter of the class."""
    reason: str = ""
    """Why it restores or saves for so long, or cannot take checkpoints."""
    reason_ms: int = 0
    """Since when, its wall clock."""
    unsaved_bytes: int | None = None
    """Size of the files that the task in hand has changed since the state that its death with its node leaves: where it begins
    again from the boundary since its begin, else since the newest snapshot. None: there is no task, or nobody has looked."""


class CancelAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Ask to cancel a task. `pool` is needed only to cancel one that is not published yet."""

    pool: str | None = None


class CancelOrder(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A pool-manager asks the owner to cancel a task; answered after the PubAck of the owner's batch."""

    session: str
    task: str
    epoch: int


class CancelAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a cancel."""

    outcome: Literal["cancelled", "finished", "unknown", "try_again"]
    status: Status | None = None
    """Status of the result that exists."""
    error: ErrorInfo | None = None


class Slot(Message, frozen=True, kw_only=True, omit_defaults=True):
    """One place of a pool: its compare-and-set reserves the name of the pod that fills it."""

    pool: str
    slot: str
    generation: int
    pod: str
    node: str
    manager: str
    reserved_ms: int
    key: str = ""  # the worker's public key, where pods ask for their credential: for one key each


class OutputEvent(Message, frozen=True, kw_only=True, omit_defaults=True):
    """JSON body of an event of a task that is not raw output (`started`, `recovered`, `truncated`, `progress`)."""

    task: str
    worker: str = ""
    at_ms: float = 0
    pool: str = ""  # on `started`
    timing: Timing | None = None
    """On `started`."""
    interruption: Interruption | None = None
    recovery: Recovery | None = None
    workspace_lost: WorkspaceLost | None = None
    transfer: Transfer | None = None
    detail: str = ""


T = TypeVar("T")
_encoder = msgspec.json.Encoder()


def encode(message: msgspec.Struct) -> bytes:
    """Write any of our messages as JSON."""
    return _encoder.encode(message)


def decode(body: bytes, kind: type[T]) -> T:
    """Read a message of the given type.

    Raises:
        InvalidMessage: bad JSON, or a field missing, of the wrong type or out of its limit (named).
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise InvalidMessage(f"{kind.__name__}: {exc}") from exc
