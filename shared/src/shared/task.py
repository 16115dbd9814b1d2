"""Tasks as clients publish them, and how they are read.

A task's JSON body has a `kind`; the schema in `docs/task.schema.json` is generated from these types. Unknown fields
are ignored, so that a newer client's message can be read; an unknown version is refused.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shared import limits
from shared.errors import InvalidMessage
from shared.files import ObjectRef
from shared.pools import OnInterrupt
from shared.workspace import Wanted

VERSION = 1
"""Version of the task and result format that this code writes, and the newest that it reads."""

Path = Annotated[str, Meta(min_length=1, max_length=limits.PATH_LENGTH_MAX, pattern="^[^\\x00]+$")]
EnvName = Annotated[
    str, Meta(min_length=1, max_length=limits.ENV_NAME_LENGTH_MAX, pattern="^[^=\\x00]+$")
]
EnvValue = Annotated[str, Meta(max_length=limits.ENV_VALUE_LENGTH_MAX, pattern="^[^\\x00]*$")]
Env = Annotated[dict[EnvName, EnvValue], Meta(max_length=limits.ENV_ITEMS_MAX)]
Word = Annotated[str, Meta(max_length=limits.BODY_BYTES_MAX, pattern="^[^\\x00]*$")]


class InputFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file put into the workspace before the task runs. Exactly one of `text`, `data` and `object`."""

    path: Path
    text: str | None = None
    data: bytes | None = None
    """Base64 in JSON."""
    object: ObjectRef | None = None
    """Content that was put into the object store before."""
    mode: Annotated[int, Meta(ge=0, le=0o777)] = 0o644

    def content(self) -> bytes:
        """Return the file's bytes, where they came with the task."""
        return self.data if self.data is not None else (self.text or "").encode()


class _Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    v: int = VERSION
    keep: bool = False
    """Keep the session open after this task (only read on a session's first task)."""
    timeout_s: Annotated[float, Meta(gt=0, le=limits.TIMEOUT_S_MAX)] = 3600.0
    """Longest run of one attempt, seconds; then the user code is killed and the task ends as `timeout`."""
    deadline_s: Annotated[float, Meta(gt=0, le=limits.DEADLINE_S_MAX)] = float(
        limits.DEADLINE_S_MAX
    )
    """Longest time from acceptance to the end, seconds, waiting included; then the task ends as `expired`."""
    on_interrupt: OnInterrupt | None = None
    """What to do when the worker died in mid-task; the pool's setting where absent."""
    files: Annotated[tuple[InputFile, ...], Meta(max_length=limits.FILES_MAX)] = ()
    """Files written into the workspace before the task runs."""
    outputs: Annotated[tuple[Path, ...], Meta(max_length=limits.OUTPUTS_MAX)] = ()
    """Files of the workspace that go into the object store when the user code has ended by itself. One that is missing
    fails a task that had gone well; after another exit code it is left out."""
    env: Env = {}
    """Environment of the user code. Never logged."""


class Open(_Task, frozen=True, kw_only=True, omit_defaults=True, tag="open"):
    """Create the session (with its files) and do nothing else."""


class Tty(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A terminal for a command: its controlling one, and its stdin, stdout and stderr."""

    rows: Annotated[int, Meta(ge=1, le=limits.TERMINAL_SIDE_MAX)] = 24
    cols: Annotated[int, Meta(ge=1, le=limits.TERMINAL_SIDE_MAX)] = 80
    term: Annotated[
        str,
        Meta(max_length=limits.TERMINAL_TYPE_LENGTH_MAX, pattern="^[A-Za-z0-9][A-Za-z0-9+._-]*$"),
    ] = "xterm-256color"
    """Type of the client's terminal: `TERM`, unless `env` has it."""
    idle_s: Annotated[float, Meta(gt=0, le=limits.TERMINAL_IDLE_S_MAX)] = 3600.0
    """Seconds after which it is hung up (SIGHUP) if nobody has typed or resized, and nothing was shown."""


class Command(_Task, frozen=True, kw_only=True, omit_defaults=True, tag="command"):
    """Run a program. Exactly one of `argv` and `shell`."""

    argv: (
        Annotated[tuple[Word, ...], Meta(min_length=1, max_length=limits.ARGV_ITEMS_MAX)] | None
    ) = None
    shell: Annotated[Word, Meta(min_length=1)] | None = None
    """A line for `/bin/sh -c`."""
    cwd: Path = "."
    """Directory in the workspace."""
    tty: Tty | None = None
    """Run it in a terminal, which clients type into. All that it writes is `stdout`. Keys can't be typed again by
    themselves: when its worker dies such a task ends as `interrupted` (`on_interrupt` is `fail`)."""


class Python(_Task, frozen=True, kw_only=True, omit_defaults=True, tag="python"):
    """Run code in the session's interpreter, whose variables live on from task to task, as in a notebook."""

    code: str


class WriteFile(_Task, frozen=True, kw_only=True, omit_defaults=True, tag="write"):
    """Write the task's `files` into the workspace."""


class ReadFile(_Task, frozen=True, kw_only=True, omit_defaults=True, tag="read"):
    """Read a piece of a file."""

    path: Path
    offset: Annotated[int, Meta(ge=0, le=limits.FILE_BYTES_MAX)] = 0
    limit: Annotated[int, Meta(ge=1, le=limits.READ_BYTES_MAX)] = limits.READ_BYTES_MAX
    as_object: bool = False
    """Put the whole file into the object store and return its reference (in `outputs`); `offset` and `limit` do not
    count then."""


class ListFiles(_Task, frozen=True, kw_only=True, omit_defaults=True, tag="list"):
    """List a directory."""

    path: Path = "."


class RemoveFile(_Task, frozen=True, kw_only=True, omit_defaults=True, tag="remove"):
    """Remove a file, or a directory with what is in it if `recursive`."""

    path: Path
    recursive: bool = False


class Archive(_Task, frozen=True, kw_only=True, omit_defaults=True, tag="archive"):
    """Put a directory with all that is in it, or a file, into the object store as a tar archive; its reference is in
    `outputs`. Sockets, pipes and devices are left out."""

    path: Path = "."


class Extract(_Task, frozen=True, kw_only=True, omit_defaults=True, tag="extract"):
    """Write the members of a tar archive, not compressed, below a directory, which is made. What has their names is
    replaced, the rest stays. Files, directories, symbolic and hard links; anything else, and a name that leads out of the
    directory, fails it: then members before that one are there."""

    path: Path = "."
    object: ObjectRef
    """The archive, put into the object store before."""


class Hibernate(_Task, frozen=True, kw_only=True, omit_defaults=True, tag="hibernate"):
    """Save the workspace and give the session's pod back. The next task wakes it elsewhere, with its files; what runs in
    the background ends, and the interpreter's variables are gone."""


class Resume(_Task, frozen=True, kw_only=True, omit_defaults=True, tag="resume"):
    """Wake the session: a worker has it, with its files, when this is done. It runs nothing."""


class Rollback(_Task, frozen=True, kw_only=True, omit_defaults=True, tag="rollback"):
    """Go back to a snapshot: what the workspace holds now goes, unless a snapshot has it. The session's pod is given back;
    its next task begins on another one, with the files of that snapshot."""

    snapshot: Wanted


class Close(_Task, frozen=True, kw_only=True, omit_defaults=True, tag="close"):
    """End the session: its pod goes, its inbox takes nothing more."""


Task = (
    Open
    | Command
    | Python
    | WriteFile
    | ReadFile
    | ListFiles
    | RemoveFile
    | Archive
    | Extract
    | Hibernate
    | Resume
    | Rollback
    | Close
)
KINDS = (
    "open", "command", "python", "write", "read", "list", "remove", "archive", "extract",
    "hibernate", "resume", "rollback", "close",
)  # fmt: skip

_decoder: msgspec.json.Decoder[Task] = msgspec.json.Decoder(Task)
_encoder = msgspec.json.Encoder()


class _Envelope(msgspec.Struct):
    v: int = VERSION


_envelope = msgspec.json.Decoder(_Envelope)


def kind_of(task: Task) -> str:
    """Return the task's `kind` as it stands in JSON."""
    return str(task.__struct_config__.tag)


def decode_task(body: bytes) -> Task:
    """Read a task's body.

    Raises:
        InvalidMessage: bad JSON, unknown version or kind, a field missing, of the wrong type or out of its limit; the
            message names field and limit.
    """
    if len(body) > limits.BODY_BYTES_MAX:
        raise InvalidMessage(f"body: {len(body)} bytes, at most {limits.BODY_BYTES_MAX}")
    try:
        version = _envelope.decode(body).v
        if not 1 <= version <= VERSION:
            raise InvalidMessage(
                f"v: version {version} is unknown, this system reads 1 to {VERSION}"
            )
        task = _decoder.decode(body)
    except (
        msgspec.ValidationError,
        msgspec.DecodeError,
        UnicodeDecodeError,
        RecursionError,
    ) as exc:
        raise InvalidMessage(f"body: {exc}") from exc
    return check_task(task)


def check_task(task: Task) -> Task:
    """Check what types cannot: fields that exclude one another.

    Raises:
        InvalidMessage: names the field.
    """
    for index, file in enumerate(task.files):
        given = [file.text is not None, file.data is not None, file.object is not None]
        if sum(given) != 1:
            raise InvalidMessage(f"files[{index}]: exactly one of text, data and object expected")
        if file.object is not None:
            file.object.check(f"files[{index}].object")
    match task:
        case Command() if (task.argv is None) == (task.shell is None):
            raise InvalidMessage("command: exactly one of argv and shell expected")
        case Command(tty=Tty(), on_interrupt=rule) if rule not in (None, "fail"):
            raise InvalidMessage("on_interrupt: fail expected, since there is a tty")
        case Extract():
            task.object.check("object")
        case WriteFile() if not task.files:
            raise InvalidMessage("write: at least one entry in files expected")
    return task


def encode_task(task: Task) -> bytes:
    """Write a task's body.

    Raises:
        InvalidMessage: fields that exclude one another, or a body over the limit (named).
    """
    body = _encoder.encode(check_task(task))
    if len(body) > limits.BODY_BYTES_MAX:
        raise InvalidMessage(f"body: {len(body)} bytes, at most {limits.BODY_BYTES_MAX}")
    return decode_check(body)


def decode_check(body: bytes) -> bytes:
    """Return `body` after reading it back: constructors do not check limits, decoding does.

    Raises:
        InvalidMessage: as `decode_task`.
    """
    decode_task(body)
    return body
