"""What goes over the runner's channel, as checked types. All that comes from there may have been made by user code."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sandbox_runner import protocol
from shared.errors import ErrorInfo, OutcomeUnknown, Rejected
from shared.files import FileEntry
from shared.messages import Interpreter

STREAMS: dict[int, Literal["stdout", "stderr"]] = {
    protocol.STDOUT: "stdout",
    protocol.STDERR: "stderr",
}
Text = Annotated[str, Meta(max_length=2 * protocol.MESSAGE_LENGTH_MAX)]
Count = Annotated[int, Meta(ge=0)]
TaskName = Annotated[str, Meta(max_length=256)]


class RunnerLost(OutcomeUnknown):
    """The sandbox is gone or does not answer: what ran in it may have happened in part. Its pod must end."""

    code = "runner_lost"


class ProtocolViolation(RunnerLost):
    """The sandbox has sent what no runner sends: user code has taken it over. Its pod must end."""

    code = "protocol_violation"


class FileFailed(Rejected):
    """A file operation failed as a whole; the message names the path."""

    code = "file"

    def __init__(self, reason: str, message: str) -> None:
        """Keep the runner's word.

        Args:
            reason: such as `not_found`, `outside_workspace`, `disk_full`.
            message: one sentence.
        """
        super().__init__(message)
        self.reason = reason

    def info(self) -> ErrorInfo:
        """Return the error with its reason as the code."""
        return ErrorInfo(code=self.reason, message=str(self))


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """Of a terminal, characters."""

    rows: int
    cols: int


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task for the runner: `argv` or `shell` with kind `command`, `code` with kind `python`."""

    task: TaskName
    kind: Literal["command", "python"]
    argv: tuple[str, ...] | None = None
    shell: str | None = None
    code: str | None = None
    env: dict[str, str] = {}
    """Added to the defaults: PATH, HOME and WORKSPACE (the workspace), LANG, PYTHONUNBUFFERED."""
    cwd: str | None = None
    """Directory in the workspace; None: the workspace, in `python` wherever the last task has left the interpreter."""
    tty: Size | None = None
    """Of a command: run it in a terminal."""


class Hello(msgspec.Struct, frozen=True):
    """The runner is up."""

    version: int
    pid: Count
    """In the runner's own pid namespace."""
    python: Text
    network: Text = ""
    """What network its sandbox has: `loopback` or `none`; empty: its node knows."""


class Started(msgspec.Struct, frozen=True):
    """The user's first instruction is about to run."""

    task: TaskName
    at_ns: Count
    """Wall clock of the sandbox's machine."""


class Failure(msgspec.Struct, frozen=True):
    """Why a task could not begin; nothing of it ran."""

    code: Text
    """`exec_…`."""
    message: Text

    def info(self) -> ErrorInfo:
        """Return it as results have it, cut to their size."""
        return ErrorInfo(code=self.code[:100], message=self.message[:1000])


class Exit(msgspec.Struct, frozen=True):
    """How a task ended: with exactly one of an exit code, a signal and an error."""

    task: TaskName
    exit_code: Annotated[int, Meta(ge=0, le=255)] | None
    signal: Annotated[int, Meta(ge=1, le=64)] | None
    error: Failure | None
    interpreter: Interpreter | None
    oom: bool = False
    """By the sandbox's own word: it can only belittle its own failure by that."""

    def __post_init__(self) -> None:
        """Refuse an end that is none.

        Raises:
            ValueError: none, or several, of the three.
        """
        told = [self.exit_code is not None, self.signal is not None, self.error is not None]
        if sum(told) != 1:
            raise ValueError("exactly one of exit_code, signal and error expected")


class Done(msgspec.Struct, frozen=True):
    """A request was carried out."""

    op: Count
    size: Count = 0
    mode: Annotated[int, Meta(ge=0, le=0o7777)] = 0
    mtime_ms: int = 0
    truncated: bool = False
    entries: Count = 0
    """Members of an archive."""


class Failed(msgspec.Struct, frozen=True):
    """A request was not."""

    op: Count
    code: Text
    message: Text


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of a directory, sorted by name."""

    entries: tuple[FileEntry, ...]
    truncated: bool
    """There are more."""


class RunnerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long the runner may take, seconds. Whoever runs a task bounds the task itself, by `stop`."""

    hello_s: float = 30.0
    """From `open` to HELLO: a node may be busy starting many."""
    start_s: float = 30.0
    """From RUN to STARTED or EXIT; an interpreter compiles the code first."""
    kill_s: float = 5.0
    """From SIGKILL to EXIT."""
    reply_s: float = 30.0
    """Between two signs of life of a file operation, and to any other answer."""


hello = msgspec.json.Decoder(Hello)
started = msgspec.json.Decoder(Started)
exited = msgspec.json.Decoder(Exit)
done = msgspec.json.Decoder(Done)
failed = msgspec.json.Decoder(Failed)
entries = msgspec.json.Decoder(list[FileEntry])
_encoder = msgspec.json.Encoder()


def encode(kind: int, value: object) -> bytes:
    """Return the frame of a control message.

    Raises:
        ValueError: it is longer than a frame may be.
    """
    try:
        return protocol.encode(kind, _encoder.encode(value))
    except protocol.FrameError as exc:
        raise ValueError(str(exc)) from exc
