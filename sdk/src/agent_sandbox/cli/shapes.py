"""What each command prints with `--json`: its shape by type. `docs/cli.schema.json` is made from this table."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from agent_sandbox.checkup.judge import Report
from agent_sandbox.embedded.status import StatusView
from agent_sandbox.kubernetes.judge import ClusterReport
from shared.files import FileEntry
from shared.messages import CancelAnswer, TaskResult
from shared.rest import StreamEvent, TaskView, Tti, TtiAnswer, TtiRow
from shared.snapshots import DiffRow, SnapshotRow
from shared.verified import StoreVerified
from shared.views import (
    LetterAnswer,
    LettersAnswer,
    NodeView,
    PoolView,
    SessionAnswer,
    SessionsAnswer,
    StockView,
    TasksAnswer,
)


class Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of what only the command line says."""


class Trouble(Shape, frozen=True, kw_only=True):
    """What went wrong."""

    code: str
    """Stable, machine-readable name."""
    message: str
    definite: bool
    """True: it surely did not happen. False: it may have happened."""


class Failure(Shape, frozen=True, kw_only=True):
    """Any command that failed; the exit code is 125."""

    error: Trouble


class UpDone(Shape, frozen=True, kw_only=True):
    """What `up` did."""

    did: Literal["started", "found", "applied"]
    state: str
    servers: tuple[str, ...]
    gateways: tuple[str, ...]
    nodes: int
    took_s: float


class DownDone(Shape, frozen=True, kw_only=True):
    """What `down` did."""

    did: Literal["stopped", "nothing"]
    state: str


class Reached(Shape, frozen=True, kw_only=True):
    """Where an embedded cluster is reached; the names are those of the shell's variables."""

    SERVER: str
    """A client edge: `nats://…`."""
    CREDENTIAL: str
    """Credential file for it."""
    URL: str
    """A gateway: `http://…`."""
    TOKEN_FILE: str
    """File with the token for it."""


class Accepted(Shape, frozen=True, kw_only=True):
    """A task that nobody waits for (`--detach`)."""

    task: str
    session: str


class TaskDone(TaskResult, frozen=True, kw_only=True, omit_defaults=True):
    """The stored result, with what the caller's clock saw beside it."""

    tti_s: float | None = None
    """Seconds from the call to the first instruction of user code."""
    tti: Tti | None = None
    total_s: float = 0.0
    """Seconds from the call to the result."""


class Dropped(Shape, frozen=True, kw_only=True):
    """Whether a dead letter was there to be dropped."""

    dropped: bool


class FileContent(Shape, frozen=True, kw_only=True):
    """A file that was read."""

    path: str
    size: int
    data: bytes | None = None
    """Base64; none where it was written to a file of this machine (`-o`)."""


class Directory(Shape, frozen=True, kw_only=True):
    """What is in a directory."""

    path: str
    entries: tuple[FileEntry, ...]


class TreeFetched(Shape, frozen=True, kw_only=True):
    """A directory that was copied to this machine."""

    folder: str
    entries: int
    size_bytes: int
    """Of all files together."""
    left_out: tuple[str, ...]
    """Links that lead out of the folder."""


class Hibernated(Shape, frozen=True, kw_only=True):
    """A session that gave its sandbox back."""

    did: bool
    """False: it had none, and nothing to do."""
    task: str | None
    """The task by which it did."""


class Forked(Shape, frozen=True, kw_only=True):
    """A session that begins with another one's files."""

    session: str
    parent: str


class Snapshots(Shape, frozen=True, kw_only=True):
    """The snapshots of a session's files, the newest first."""

    session: str
    snapshots: tuple[SnapshotRow, ...]


class Changes(Shape, frozen=True, kw_only=True):
    """How two snapshots differ."""

    changes: tuple[DiffRow, ...]
    more: bool
    """There are more than were asked for."""


class Pools(Shape, frozen=True, kw_only=True):
    """All pools."""

    pools: tuple[PoolView, ...]


class PoolShown(Shape, frozen=True, kw_only=True):
    """One pool, and the nodes that can give it pods."""

    pool: PoolView
    nodes: tuple[NodeView, ...]


class PoolExplained(Shape, frozen=True, kw_only=True):
    """Why a pool's stock is what it is."""

    pool: str
    stock: int
    explained: tuple[str, ...]
    policy: StockView | None


class BacktestPoint(Shape, frozen=True, kw_only=True):
    """One policy at one setting. Times are seconds; null: some wait for ever."""

    setting: str
    activations: int
    idle_s: float
    """Idle pod-seconds per activation, start-ups of pods that were never used among them."""
    unused_start_s: float
    cold_share: float
    wait_p50_s: float | None
    wait_p99_s: float | None
    wait_p999_s: float | None
    wait_mean_s: float | None
    starts: float
    """Pods started per activation."""


class BacktestCurve(Shape, frozen=True, kw_only=True):
    """One policy at several settings."""

    policy: str
    points: tuple[BacktestPoint, ...]


class Backtest(Shape, frozen=True, kw_only=True):
    """A trace through several policies."""

    trace: str
    cold_share: float
    idle_s_at_cold_share: dict[str, float | None]
    """Policy -> idle pod-seconds per activation at that share; null: it never gets there."""
    curves: tuple[BacktestCurve, ...]


class TtiTask(Shape, frozen=True, kw_only=True):
    """One sandbox that was asked for to see how soon it runs code."""

    task: str
    status: str
    tti: Tti | None
    """None: it was not seen to start."""


class TtiMeasured(Shape, frozen=True, kw_only=True):
    """What was measured now."""

    pool: str
    tasks: tuple[TtiTask, ...]
    rows: tuple[TtiRow, ...]
    """By the way that tasks took to their workers."""


class TtiSeen(Shape, frozen=True, kw_only=True):
    """What gateways measured lately (`--stats`)."""

    gateways: tuple[TtiAnswer, ...]


SHAPES: dict[str, tuple[Any, ...]] = {
    "up": (UpDone,),
    "down": (DownDone,),
    "status": (StatusView,),
    "doctor": (Report,),
    "k8s doctor": (ClusterReport,),
    "env": (Reached,),
    "run": (TaskDone, Accepted),
    "session create": (TaskDone,),
    "session exec": (TaskDone,),
    "session python": (TaskDone,),
    "session list": (SessionsAnswer,),
    "session show": (SessionAnswer,),
    "session close": (TaskDone,),
    "session write": (TaskDone,),
    "session read": (FileContent,),
    "session ls": (Directory,),
    "session rm": (TaskDone,),
    "session put": (TaskDone,),
    "session get": (TaskDone,),
    "session upload": (TaskDone,),
    "session download": (TreeFetched,),
    "session hibernate": (Hibernated,),
    "session resume": (TaskDone,),
    "session rollback": (TaskDone,),
    "session fork": (Forked,),
    "session snapshots": (Snapshots,),
    "session name": (SnapshotRow,),
    "session diff": (Changes,),
    "task list": (TasksAnswer,),
    "task show": (TaskView,),
    "task cancel": (CancelAnswer,),
    "logs": (StreamEvent,),
    "pool list": (Pools,),
    "pool show": (PoolShown,),
    "pool explain": (PoolExplained,),
    "pool simulate": (Backtest,),
    "pool backtest": (Backtest,),
    "tti": (TtiMeasured, TtiSeen),
    "deadletter list": (LettersAnswer,),
    "deadletter show": (LetterAnswer,),
    "deadletter replay": (TaskDone, Accepted),
    "deadletter drop": (Dropped,),
    "workspace verify": (StoreVerified,),
}
"""Command -> what it prints, one of these; the second one where `docs/cli.md` says so."""

WITHOUT_JSON: dict[str, str] = {
    "session attach": "it is a terminal for a person",
    "completion": "it prints a program for a shell",
    "chaos": "it is a program of its own, with options of its own",
    "lab": "likewise; its last line is always an object",
}
"""Commands that have no `--json`, and why."""
