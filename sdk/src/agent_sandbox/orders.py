"""From what a caller says to the task that is published."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from agent_sandbox.made import Made
from agent_sandbox.sequencer import LIVE_BYTES_MAX
from shared.classes import CLIENT_CLASSES
from shared.errors import InvalidMessage
from shared.ids import parse_task_id
from shared.pools import OnInterrupt
from shared.task import Command, InputFile, Python, Task

Content = str | bytes | Path | InputFile
"""Text, bytes, a file of this machine whose bytes are sent, or a file with a reference to an object."""


class TaskOptions(TypedDict, total=False):
    """What every task takes."""

    files: Mapping[str, Content]
    """Path in the workspace -> content, of any size; written before the task runs."""
    outputs: Sequence[str]
    """Files of the workspace to put into the object store when the program has ended by itself: `Result.outputs`."""
    env: Mapping[str, str]
    """Environment of the user code."""
    timeout_s: float
    """Longest run of one attempt, seconds."""
    deadline_s: float
    """Longest time from acceptance to the end, waiting included, seconds."""
    on_interrupt: OnInterrupt
    """`rerun`, `resume` or `fail`, when the worker dies in mid-task; the pool's rule where absent."""
    task_id: str
    """Id of the task (a UUID or ULID); made where absent. The same id runs once, however often it is published."""
    klass: str
    """How urgent it is, while it waits for a worker: `interactive` or `batch`. Absent: `interactive` for a new session,
    its session's own class for a session's task."""


class SessionOptions(TaskOptions, total=False):
    """What the creation of a session takes; its id is the task's."""

    pool: str
    """Pool; `default` where absent."""


class ProgramOptions(TaskOptions, total=False):
    """What a program in a session takes."""

    cwd: str
    """Directory in the workspace."""


class TerminalOptions(TypedDict, total=False):
    """What a terminal is like."""

    rows: int
    """24 where absent."""
    cols: int
    """80 where absent."""
    term: str
    """`TERM`; `xterm-256color` where absent."""
    idle_s: float
    """Seconds after which it is hung up if nobody has typed or resized, and nothing was shown; an hour where absent."""


class ShellOptions(ProgramOptions, TerminalOptions, total=False):
    """What a program in a terminal takes."""


class RunOptions(TaskOptions, total=False):
    """What `run` takes: a program, a shell line or Python code, and where it runs."""

    shell: str
    """A line for `/bin/sh -c`, instead of a program."""
    code: str
    """Python code for the session's interpreter, instead of a program."""
    cwd: str
    """Directory in the workspace."""
    pool: str
    """Pool; `default` where absent."""


CARRIED = {"letter", "made", "replay_of"}
"""What our own code adds to a caller's options on their way."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to publish, and under which names."""

    tenant: str
    session: str
    task: str
    body: bytes
    pool: str | None
    """Pool of a first task; None for a later task of a session."""
    klass: str | None = None
    """Class that it asks for; None: `interactive` for a first task, its session's own for a later one."""
    keep: bool = False
    """Of a first task: its session stays open, as its body says, too."""
    replay_of: str | None = None
    """The task whose dead letter this one replays."""
    letter: int | None = None
    """Number of that dead letter."""
    wait_s: float
    """Longest wait for the result, counted from its publish."""
    live_bytes_max: int = LIVE_BYTES_MAX
    """Held for a slow reader of its events; see `View`."""
    made: Made = msgspec.field(default_factory=Made)
    """Objects that were made for it alone; they are dropped when its result is there."""


def name_order(
    tenant: str, task_id: str, session_id: str | None, *, pool: str | None = None, wait_s: float = 0
) -> Order:
    """Return the names of a task that is published elsewhere, if at all; without a session it is its session's first.

    Raises:
        InvalidMessage: they are no ids.
    """
    return Order(
        tenant=tenant,
        session=parse_task_id(session_id or task_id),
        task=parse_task_id(task_id),
        body=b"",
        pool=pool,
        wait_s=wait_s,
    )


def make_task_id() -> str:
    """Return a new task id."""
    return str(uuid.uuid4())


def check_class(klass: str) -> str:
    """Return the class if clients may ask for it.

    Raises:
        InvalidMessage: they may not.
    """
    if klass not in CLIENT_CLASSES:
        raise InvalidMessage(f"class: {' or '.join(CLIENT_CLASSES)} expected, got {klass!r}")
    return klass


def check_options(options: Mapping[str, Any], known: type) -> None:
    """Refuse a name that no option has; left alone, a typo would run without what was asked for.

    Args:
        options: what a caller said, by name.
        known: the TypedDict that has the options.

    Raises:
        InvalidMessage: there is no such option.
    """
    names = known.__annotations__
    for name in sorted(options.keys() - names.keys() - CARRIED):
        near = difflib.get_close_matches(name, names, 1)
        hint = f", did you mean {near[0]!r}?" if near else f"; there are: {', '.join(names)}"
        raise InvalidMessage(f"no option {name!r}{hint}")


def common_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task's fields that all kinds share.

    Raises:
        InvalidMessage: a file can't be read, or there is no such option.
    """
    check_options(options, RunOptions)
    fields: dict[str, Any] = {
        name: options[name]
        for name in ("timeout_s", "deadline_s", "on_interrupt")
        if name in options
    }
    if options.get("outputs"):
        fields["outputs"] = tuple(options["outputs"])
    if options.get("files"):
        fields["files"] = tuple(
            input_file(path, content) for path, content in options["files"].items()
        )
    if options.get("env"):
        fields["env"] = dict(options["env"])
    return fields


def input_file(path: str, content: Content) -> InputFile:
    """Return a file to send with a task.

    Raises:
        InvalidMessage: it can't be read.
    """
    if isinstance(content, InputFile):
        return msgspec.structs.replace(content, path=path)
    mode = 0o644
    if isinstance(content, Path):
        try:
            mode = content.stat().st_mode & 0o777
            content = content.read_bytes()
        except OSError as exc:
            raise InvalidMessage(f"file {exc.filename}: {exc.strerror or exc}") from exc
    if isinstance(content, bytes):
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return InputFile(path=path, data=content, mode=mode)
        return InputFile(path=path, text=text, mode=mode)
    return InputFile(path=path, text=content, mode=mode)


def program_task(
    argv: Sequence[str] | str | None, options: Mapping[str, Any], *, keep: bool = False
) -> Task:
    """Return the task for a program, a shell line or Python code.

    A text is no list of words, though Python takes it for one of letters: in place of argv it is a shell line.

    Raises:
        InvalidMessage: not exactly one of the three, or a file can't be read.
    """
    if isinstance(argv, str) and options.get("shell") is None:
        argv, options = None, {**options, "shell": argv}
    given = [
        name
        for name, value in (
            ("argv", argv),
            ("shell", options.get("shell")),
            ("code", options.get("code")),
        )
        if value is not None
    ]
    if len(given) != 1:
        raise InvalidMessage(
            f"exactly one of argv, shell and code expected, got {' and '.join(given) or 'none'}"
        )
    fields = common_fields(options)
    if "code" in given:
        return Python(code=options["code"], keep=keep, **fields)
    if "cwd" in options:
        fields["cwd"] = options["cwd"]
    if "shell" in given:
        return Command(shell=options["shell"], keep=keep, **fields)
    return Command(argv=tuple(argv or ()), keep=keep, **fields)
