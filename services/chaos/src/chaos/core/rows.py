"""The history's rows: what clients did and heard, what the streams stored, what the nemesis did. One row is one JSON line.

All times are seconds of the injector's clock: one monotonic clock, of the process that runs the lab.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from shared.messages import Status
from shared.record import State

Type = Literal["invoke", "ok", "fail", "info"]
"""As Jepsen has them. `fail`: surely not done. `info`: it may have been done, now or later."""
Function = Literal["append", "once", "read"]
"""`append`: a turn that appends to the session's journal; the first one makes the session. `once`: a one-shot, a session of
its own. `read`: the strong read of the whole journal at the end, in the session's turn like every task."""


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="row"):
    """Base of all rows."""

    time: float


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A journal as a task of its session read it back."""

    length: int
    """Tokens in it."""
    chain: str
    """Hash over all of them, in order (`core.journal`)."""
    tokens: tuple[str, ...] = ()
    """The newest; of a strong read: all."""


class Op(Row, frozen=True, kw_only=True, omit_defaults=True, tag="op"):
    """A client calls, or hears what became of its call."""

    type: Type
    f: Function
    process: int
    """The client: the number of its user; -1: whoever sends one-shots."""
    session: str
    token: str
    """What it appends, unique in the run; of a read: its name."""
    task: str
    """The task's id."""
    seen: Seen | None = None
    status: Status | None = None
    """Of the result, where there is one."""
    error: str = ""
    via: str = ""
    """On `invoke`: the way, `nats` or `http`."""
    klass: str = ""
    kind: str = ""
    """On `invoke`: `chat`, `batch`, `long`, `once`."""
    steps: int = 0
    epoch: int = 0
    """Of the owner that gave the result."""
    attempt: int = 0


class Accepted(Row, frozen=True, kw_only=True, omit_defaults=True, tag="accepted"):
    """The publish of a call was acknowledged."""

    session: str
    task: str
    is_once: bool = False


class Effect(Row, frozen=True, kw_only=True, omit_defaults=True, tag="effect"):
    """The ledger: an effect on the world outside, keyed by session, turn and step, as it was heard there."""

    session: str
    task: str
    step: int
    epoch: int
    length: int = 0
    """Tokens that the workspace held behind this step."""
    chain: str = ""


class Started(Row, frozen=True, kw_only=True, omit_defaults=True, tag="started"):
    """User code of a task began to run."""

    session: str
    task: str
    epoch: int


class Version(Row, frozen=True, kw_only=True, omit_defaults=True, tag="record"):
    """A session's record as a state stream stored it."""

    at: tuple[int, int]
    """Shard and sequence: where, and in which order."""
    session: str
    state: State
    epoch: int
    position: int = 0
    tasks_done: int = 0
    owner: str | None = None
    node: str | None = None
    revoked_at: float | None = None
    """When the revocation that it tells of was decided, on the injector's clock."""
    cause: str = ""
    is_lost: bool = False
    """It says that what the session's files held is gone."""


class Stored(Row, frozen=True, kw_only=True, omit_defaults=True, tag="result"):
    """A result as a state stream stored it."""

    at: tuple[int, int]
    session: str
    task: str
    status: Status
    epoch: int
    worker: str = ""
    attempt: int = 0


class Nemesis(Row, frozen=True, kw_only=True, omit_defaults=True, tag="nemesis"):
    """A fault is done, healed, or found no victim; it can't show that it did bite, or saw something go wrong itself."""

    type: Literal["inject", "heal", "skip", "missed", "failed"]
    fault: str
    targets: tuple[str, ...] = ()
    detail: str = ""


class Cut(Row, frozen=True, kw_only=True, omit_defaults=True, tag="cut"):
    """A client's stream broke off, or went on: whole, or with a gap."""

    type: Literal["cut", "attached", "gap"]
    session: str
    task: str
    via: str = ""


class Gauge(Row, frozen=True, kw_only=True, omit_defaults=True, tag="gauge"):
    """How it stands at a moment."""

    pressure: float | None = None
    """Share of time since the last one in which something waited for a processor (PSI cpu, some)."""
    think: float = 1.0
    """Users think so many times longer than they would: the machine was too busy."""
    pools: dict[str, tuple[int, int, int]] = {}
    """Pool -> warm, starting, bound, as the pool-managers say."""


class Held(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one service's process holds."""

    kind: str
    pid: int = 0
    """0: not noted."""
    memory_kib: int
    """Resident."""
    files: int
    """Open."""
    disk_kib: int = 0
    """Of a server: its streams."""


class Usage(Row, frozen=True, kw_only=True, omit_defaults=True, tag="usage"):
    """What the services hold at a moment."""

    services: dict[str, Held]


class Phase(Row, frozen=True, kw_only=True, omit_defaults=True, tag="phase"):
    """The run goes on to its next part."""

    name: str


class Header(Row, frozen=True, kw_only=True, omit_defaults=True, tag="header"):
    """The first row: what was run, where, and of which seed."""

    format: int = 1
    run: str
    seed: int
    commit: str
    began_ms: int
    """Wall clock at time 0, milliseconds since 1970."""
    machine: dict[str, Any] = {}
    settings: dict[str, Any] = {}


class Footer(Row, frozen=True, kw_only=True, omit_defaults=True, tag="footer"):
    """The last row of a run that came to its end."""

    unseen: int = 0
    """Places of the state streams of which nobody knows what was stored there."""
    is_aborted: bool = False


AnyRow = (
    Op | Accepted | Effect | Started | Version | Stored | Nemesis | Cut | Gauge | Usage | Phase | Header | Footer
)  # fmt: skip
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyRow] = msgspec.json.Decoder(AnyRow)


def to_line(row: AnyRow) -> bytes:
    """Return a row as one line, its end included."""
    return _encoder.encode(row) + b"\n"


def of_line(line: bytes) -> AnyRow:
    """Return the row of a line.

    Raises:
        ValueError: it is none (msgspec's errors are ValueErrors).
    """
    return _decoder.decode(line)
