"""Tasks as clients publish them: every limit is named when it is passed, and nothing breaks the reader."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import limits
from shared.errors import InvalidMessage
from shared.files import ObjectRef
from shared.task import (
    KINDS,
    Archive,
    Close,
    Command,
    Extract,
    Hibernate,
    InputFile,
    ListFiles,
    Open,
    Python,
    ReadFile,
    RemoveFile,
    Resume,
    Rollback,
    Task,
    WriteFile,
    decode_task,
    encode_task,
    kind_of,
)

OBJECT = {"id": "object-1", "size_bytes": 40_000, "sha256": "0" * 64, "chunk_bytes": 65_536}
FILE = {"path": "a.txt", "text": "x"}

EXAMPLES: list[Task] = [
    Open(keep=True, files=(InputFile(path="a", data=b"\x00\xff"),)),
    Command(argv=("echo", "hi"), env={"LANG": "C"}, timeout_s=1.5),
    Command(shell="echo hi > out", cwd="sub", on_interrupt="fail"),
    Python(code="1 + 1", deadline_s=60.0),
    WriteFile(files=(InputFile(path="a", text="äöü", mode=0o755), InputFile(path="b", text=""))),
    ReadFile(path="a", offset=7, limit=limits.READ_BYTES_MAX),
    ListFiles(),
    RemoveFile(path="d", recursive=True),
    Archive(path="d"),
    Extract(
        path="d",
        object=ObjectRef(id="object-1", size_bytes=1, sha256="0" * 64, chunk_bytes=1),
    ),
    Hibernate(),
    Resume(),
    Rollback(snapshot="before-the-upgrade"),
    Close(),
]


def body(**fields: Any) -> bytes:
    """Return a task's body as a foreign client writes it."""
    return json.dumps(fields).encode()


@pytest.mark.parametrize("task", EXAMPLES, ids=kind_of)
def test_a_task_survives_the_journey(task: Task) -> None:
    """Encoded and decoded, it is the same."""
    assert decode_task(encode_task(task)) == task


def test_every_kind_has_an_example() -> None:
    """None of the tests on examples leaves a kind out."""
    assert {kind_of(task) for task in EXAMPLES} == set(KINDS)


def test_a_minimal_task_has_the_documented_defaults() -> None:
    """What a client may leave out."""
    assert decode_task(b'{"kind":"python","code":"1"}') == Python(
        v=1, keep=False, timeout_s=3600.0, deadline_s=86400.0, on_interrupt=None, files=(), env={}, code="1"
    )  # fmt: skip


def test_unknown_fields_are_ignored() -> None:
    """A newer client's message can be read, also inside of its parts."""
    newer = body(
        kind="open", v=1, colour="red", nested={"a": [1, 2]}, files=[{**FILE, "owner": "root"}]
    )

    assert decode_task(newer) == Open(files=(InputFile(path="a.txt", text="x"),))


@pytest.mark.parametrize("version", [2, 0, -1, 1 << 70])
def test_an_unknown_version_is_refused(version: int) -> None:
    """What a new version means cannot be guessed. It is looked at first, whatever else there is."""
    with pytest.raises(InvalidMessage, match=rf"v: version {version} is unknown.* reads 1 to 1"):
        decode_task(body(kind="of-the-future", v=version))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"kind": "command", "argv": ["x"] * 257}, ["argv", "<= 256"]),
        ({"kind": "command", "argv": []}, ["argv", ">= 1"]),
        ({"kind": "command", "argv": ["a\0"]}, ["argv[0]", "x00"]),
        ({"kind": "command", "shell": ""}, ["shell", ">= 1"]),
        ({"kind": "command", "shell": "x", "cwd": "d" * 1025}, ["cwd", "<= 1024"]),
        ({"kind": "command", "shell": "x", "cwd": "d\0"}, ["cwd", "x00"]),
        ({"kind": "open", "env": {f"N{n}": "" for n in range(65)}}, ["env", "<= 64"]),
        ({"kind": "open", "env": {"N" * 129: ""}}, ["env", "key", "<= 128"]),
        ({"kind": "open", "env": {"A=B": ""}}, ["env", "key", "="]),
        ({"kind": "open", "env": {"": ""}}, ["env", "key", ">= 1"]),
        ({"kind": "open", "env": {"A": "b" * 16385}}, ["env", "<= 16384"]),
        ({"kind": "open", "env": {"A": "\0"}}, ["env", "x00"]),
        ({"kind": "open", "files": [FILE] * 65}, ["files", "<= 64"]),
        ({"kind": "open", "files": [{"path": "", "text": ""}]}, ["files[0].path", ">= 1"]),
        (
            {"kind": "open", "files": [{"path": "p" * 1025, "text": ""}]},
            ["files[0].path", "<= 1024"],
        ),
        ({"kind": "open", "files": [{**FILE, "mode": 0o1000}]}, ["files[0].mode", "<= 511"]),
        ({"kind": "open", "files": [{"path": "a", "data": "%"}]}, ["files[0].data", "base64"]),
        ({"kind": "open", "timeout_s": 0}, ["timeout_s", "> 0"]),
        ({"kind": "open", "timeout_s": 86401}, ["timeout_s", "<= 86400"]),
        ({"kind": "open", "deadline_s": -1}, ["deadline_s", "> 0"]),
        ({"kind": "open", "deadline_s": 86401}, ["deadline_s", "<= 86400"]),
        ({"kind": "open", "on_interrupt": "retry"}, ["on_interrupt", "'retry'"]),
        ({"kind": "open", "keep": "yes"}, ["keep", "bool"]),
        ({"kind": "read", "path": "a", "limit": 131073}, ["limit", "<= 131072"]),
        ({"kind": "read", "path": "a", "limit": 0}, ["limit", ">= 1"]),
        ({"kind": "read", "path": "a", "offset": -1}, ["offset", ">= 0"]),
        ({"kind": "read", "path": "a", "offset": 1 << 45}, ["offset", "<= 17592186044416"]),
        ({"kind": "read"}, ["missing", "path"]),
        ({"kind": "python"}, ["missing", "code"]),
        ({"kind": "python", "code": 1}, ["code", "str"]),
        ({"kind": "dance"}, ["kind", "'dance'"]),
        ({"v": 1}, ["missing", "kind"]),
        ({"kind": "open", "v": "1"}, ["v", "int"]),
        (
            {"kind": "open", "files": [{"path": "a", "object": {**OBJECT, "id": "object-1\n"}}]},
            ["object.id"],
        ),
        (
            {"kind": "open", "files": [{"path": "a", "object": {**OBJECT, "id": "object.1"}}]},
            ["object.id"],
        ),
        (
            {"kind": "open", "files": [{"path": "a", "object": {**OBJECT, "size_bytes": 1 << 33}}]},
            ["size_bytes", "4294967296"],
        ),
        ({"kind": "open", "outputs": ["a"] * 17}, ["outputs", "16"]),
    ],
)
def test_the_message_names_field_and_limit(fields: dict[str, Any], named: list[str]) -> None:
    """Whoever reads it knows what to change."""
    with pytest.raises(InvalidMessage) as refusal:
        decode_task(body(**fields))

    assert [word for word in named if word not in str(refusal.value)] == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "command"}, "command: exactly one of argv and shell expected"),
        ({"kind": "command", "argv": ["a"], "shell": "a"}, "command: exactly one of argv and shell expected"),
        ({"kind": "write"}, "write: at least one entry in files expected"),
        ({"kind": "write", "files": [FILE, {"path": "b"}]}, "files[1]: exactly one of text, data and object expected"),
        ({"kind": "open", "files": [{**FILE, "data": "eA=="}]}, "files[0]: exactly one of text, data and object expected"),
        (
            {"kind": "open", "files": [{"path": "a", "object": {**OBJECT, "chunk_bytes": 1}}]},
            "files[0].object: 40000 chunks of 1 bytes, at most 32768",
        ),
    ],
)  # fmt: skip
def test_fields_that_exclude_one_another_are_named(fields: dict[str, Any], message: str) -> None:
    """What types cannot say is checked as well."""
    with pytest.raises(InvalidMessage) as refusal:
        decode_task(body(**fields))

    assert str(refusal.value) == message


def test_a_body_at_the_limit_is_read_and_one_byte_more_is_not() -> None:
    """The limit is the one of the table."""
    frame = len(body(kind="python", code=""))
    whole = body(kind="python", code="x" * (limits.BODY_BYTES_MAX - frame))

    assert len(whole) == limits.BODY_BYTES_MAX
    assert kind_of(decode_task(whole)) == "python"
    with pytest.raises(InvalidMessage, match=r"^body: 262145 bytes, at most 262144$"):
        decode_task(whole + b" ")


def test_encoding_checks_what_constructors_do_not() -> None:
    """A client hears of a passed limit before anything is published."""
    too_long = Open(timeout_s=1e6)
    too_large = Python(code="x" * limits.BODY_BYTES_MAX)

    with pytest.raises(InvalidMessage, match="timeout_s"):
        encode_task(too_long)
    with pytest.raises(InvalidMessage, match="at most 262144"):
        encode_task(too_large)
    with pytest.raises(InvalidMessage, match="exactly one of argv and shell"):
        encode_task(Command())


def test_the_content_of_a_file_is_text_or_bytes() -> None:
    """Text travels as it is, bytes as base64."""
    task = decode_task(
        body(kind="write", files=[{"path": "a", "text": "ä"}, {"path": "b", "data": "AP8="}])
    )

    assert [file.content() for file in task.files] == ["ä".encode(), b"\x00\xff"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = [
    "v", "keep", "timeout_s", "deadline_s", "on_interrupt", "files", "env", "argv", "shell", "cwd", "code",
    "path", "offset", "limit", "recursive", "text", "data", "mode",
]  # fmt: skip


def _reads_or_refuses(raw: bytes) -> None:
    with contextlib.suppress(InvalidMessage):
        decode_task(raw)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(raw: bytes) -> None:
    """It reads, or raises InvalidMessage; nothing else."""
    _reads_or_refuses(raw)


@given(
    kind=st.sampled_from(KINDS) | json_values,
    fields=st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=6),
)
def test_no_json_breaks_the_reader(kind: object, fields: dict[str, object]) -> None:
    """Any value in any field, NaN and Infinity as Python writes them included."""
    _reads_or_refuses(json.dumps({"kind": kind, **fields}).encode())


@given(
    task=st.sampled_from(EXAMPLES),
    cut=st.integers(0, 200),
    instead=st.binary(max_size=4),
    length=st.integers(0, 4),
)
def test_no_damage_breaks_the_reader(task: Task, cut: int, instead: bytes, length: int) -> None:
    """A valid body with a few bytes exchanged, added or lost."""
    raw = encode_task(task)
    _reads_or_refuses(raw[:cut] + instead + raw[cut + length :])


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 200_000,
        b'{"kind":"open","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"kind":"open","v":' + b"1" * 250_000 + b"}",
        b'{"kind":"open","timeout_s":1e999}',
        b'{"kind":"python","code":"\\ud800"}',
        b'{"kind":"python","code":"\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"kind":"open"}',
        b'{"kind":"open"} {"kind":"open"}',
        b'{"kind":"open","kind":"python","code":"1"}',
    ],
    ids=[
        "deep",
        "deep-field",
        "digits",
        "infinity",
        "surrogate",
        "cesu",
        "bom",
        "two",
        "two-kinds",
    ],
)
def test_hostile_bodies_are_refused(raw: bytes) -> None:
    """Nesting, digits and encodings that break naive readers."""
    with pytest.raises(InvalidMessage):
        decode_task(raw)
