"""Messages between services: they survive the journey, newer ones can be read, bad ones are named."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared import letters, messages, views
from shared.errors import ErrorInfo, InvalidMessage, OutcomeUnknown, StaleEpoch
from shared.files import FileEntry, ObjectRef, OutputFile, Stream
from shared.messages import (
    CancelAnswer,
    Credential,
    DeletePod,
    Interpreter,
    Interruption,
    Message,
    NodeBeat,
    PodSpec,
    TaskResult,
    Timing,
    WorkerBeat,
    WorkspaceLost,
    decode,
    encode,
)
from shared.pools import PodLimits
from shared.testing.strategies import messages_of
from shared.views import ListAsk

KINDS = [
    kind
    for module in (messages, letters, views)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Message) and kind is not Message
]

FEWER = settings(max_examples=40)
"""For each of the forty kinds, which share most of their fields."""

RESULT = TaskResult(
    task="task-0001",
    session="session-1",
    tenant="acme",
    status="failed",
    reason="signal",
    kind="command",
    pool="default",
    signal=9,
    error=ErrorInfo(code="oom", message="the sandbox ran out of memory"),
    stdout=Stream(text="a\n", size=2),
    stderr=Stream(text="ü", size=70_000, truncated=True),
    data=b"\x00\xff",
    entries=(FileEntry(name="a", type="file", size=3),),
    outputs=(OutputFile(path="a", object=ObjectRef(id="object-1", size_bytes=1, sha256="0" * 64, chunk_bytes=1)),),
    epoch=3,
    attempt=2,
    timing=Timing(accepted_ms=1, claimed_ms=2.5, started_ms=3.25, finished_ms=4.0),
    interruptions=(Interruption(cause="process_exit", epoch=2, worker="w1", revoked_ms=5, silent_ms=6),),
    workspace_lost=WorkspaceLost(cause="process_exit", epoch=2, at_ms=5),
    interpreter=Interpreter(generation=2, fresh="the last one ended"),
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@FEWER
@given(data=st.data())
def test_every_message_survives_the_journey(kind: type[Message], data: st.DataObject) -> None:
    """Encoded and decoded, it is the same, whatever its fields hold."""
    message = data.draw(messages_of(kind))

    assert decode(encode(message), kind) == message


def test_a_full_result_survives_the_journey() -> None:
    """With everything that it can say."""
    assert decode(encode(RESULT), TaskResult) == RESULT


def test_defaults_are_not_sent() -> None:
    """Heartbeats are many: what is at its default is left out."""
    beat = WorkerBeat(worker="w1", pool="p", node="n", state="warm")

    assert encode(beat) == b'{"worker":"w1","pool":"p","node":"n","state":"warm"}'


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@FEWER
@given(data=st.data())
def test_a_newer_message_can_be_read(kind: type[Message], data: st.DataObject) -> None:
    """Fields that this version does not know are passed over."""
    message = data.draw(messages_of(kind))
    newer: dict[str, Any] = msgspec.json.decode(encode(message))
    newer["a_field_of_the_future"] = {"a": [1]}

    assert decode(msgspec.json.encode(newer), kind) == message


@pytest.mark.parametrize(
    ("body", "kind", "named"),
    [
        (b"", WorkerBeat, "WorkerBeat: Input data was truncated"),
        (b"[]", WorkerBeat, "WorkerBeat: Expected `object`"),
        (b'{"worker":"w"}', WorkerBeat, "missing required field `pool`"),
        (b'{"worker":"w","pool":"p","node":"n","state":"asleep"}', WorkerBeat, "'asleep' - at `$.state`"),
        (b'{"pod":"p","grace_s":301}', DeletePod, "<= 300.0 - at `$.grace_s`"),
        (b'{"limit":0}', ListAsk, ">= 1 - at `$.limit`"),
        (b'{"limit":501}', ListAsk, "<= 500 - at `$.limit`"),
        (b'{"outcome":"maybe"}', CancelAnswer, "'maybe' - at `$.outcome`"),
        (b'{"node":"\xff","started_ms":1}', NodeBeat, "Invalid UTF-8"),
        (b"[" * 100_000, NodeBeat, "NodeBeat: "),
    ],
)  # fmt: skip
def test_a_bad_message_is_named(body: bytes, kind: type[Message], named: str) -> None:
    """The kind, the field and what was expected of it."""
    with pytest.raises(InvalidMessage) as refusal:
        decode(body, kind)

    assert named in str(refusal.value)


@given(body=st.binary(max_size=100))
def test_no_bytes_break_the_reader(body: bytes) -> None:
    """It reads, or raises InvalidMessage; nothing else."""
    for kind in KINDS:
        with contextlib.suppress(InvalidMessage):
            decode(body, kind)


def test_a_credential_is_never_shown() -> None:
    """Not by itself, nor inside of what holds it; it travels all the same."""
    spec = PodSpec(
        pod="p", pool="a", node="n", isolation="auto", limits=PodLimits(),
        credential=Credential(jwt="the-jwt", seed="SUSECRET"),
    )  # fmt: skip

    assert "SUSECRET" not in repr(spec)
    assert "the-jwt" not in str(spec)
    assert decode(encode(spec), PodSpec).credential.seed == "SUSECRET"


def test_an_error_travels_with_its_code_and_whether_it_is_definite() -> None:
    """A caller far away can tell a refusal from an unknown outcome."""
    assert StaleEpoch("epoch 3 is over").info() == ErrorInfo(
        code="stale_epoch", message="epoch 3 is over", definite=True
    )
    assert OutcomeUnknown("no answer").info() == ErrorInfo(
        code="outcome_unknown", message="no answer", definite=False
    )
