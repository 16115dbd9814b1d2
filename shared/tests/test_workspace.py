"""What is asked of checkpointers and what they keep: read back as written, nonsense refused."""

from __future__ import annotations

import msgspec
import pytest

from shared import messages
from shared.errors import ErrorInfo, InvalidMessage
from shared.record import Record
from shared.workspace import (
    Base,
    CheckpointAnswer,
    CheckpointAsk,
    CheckpointerBeat,
    Latest,
    Pin,
    Retained,
    SnapshotRef,
    WorkspaceHead,
)

SNAPSHOT = SnapshotRef(
    id="ab" * 32, pack="acme/session-1/01J0PACK-abcd", at_ms=7, entries=3, bytes=9, lineage=2
)
LATEST = Latest(snapshot=SNAPSHOT, task="task-0001", attempt=2, epoch=5)
ALL: list[msgspec.Struct] = [
    CheckpointAsk(
        job="job-00000001", op="save", tenant="acme", pool="p", session="session-1", epoch=5,
        pod="p-1", task="task-0001", attempt=2, snapshot=SNAPSHOT, frozen=True, knows="running",
    ),
    CheckpointAnswer(
        job="job-00000001", state="failed", done_bytes=1, total_bytes=2, torn=("a/b",),
        error=ErrorInfo(code="unavailable", message="the store does not answer"),
    ),
    CheckpointAnswer(job="job-00000001", state="done", snapshot=SNAPSHOT),
    CheckpointerBeat(node="n1", started_ms=1, store="local:x", unavailable="disk full", jobs=2),
    WorkspaceHead(
        session="session-2", tenant="acme", pool="p", gc_seq=3,
        retained=(Retained(snapshot=SNAPSHOT, epoch=4, task="t", name="before"),),
        pins=(Pin(snapshot=SNAPSHOT.id, session="session-3"),),
        base=Base(session="session-1", snapshot=SNAPSHOT), deleted=True,
    ),
    Record(
        session="session-2", tenant="acme", pool="p", state="rescuing", lane="recovery",
        client_lane="batch", keep=True, accepted_ms=1, boundary=SNAPSHOT, latest=LATEST,
        checkpoint_stale_ms=2, rescue_until_ms=3, base=Base(session="session-1", snapshot=SNAPSHOT),
    ),
]  # fmt: skip


@pytest.mark.parametrize("message", ALL, ids=lambda message: type(message).__name__)
def test_what_is_written_is_read_back(message: msgspec.Struct) -> None:
    """Every field of every message, as JSON."""
    assert messages.decode(messages.encode(message), type(message)) == message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "AB" * 32),
        ("id", "ab" * 31),
        ("id", "ab" * 32 + "\n"),
        ("pack", "acme/session-1"),
        ("pack", "acme/../x"),
        ("pack", "/acme/session-1/x"),
        ("pack", "acme/session-1/x/y"),
        ("pack", "acme/session-1/x\n"),
    ],
)
def test_a_snapshot_that_names_no_pack_of_a_store_is_refused(field: str, value: str) -> None:
    """Its names become keys and paths: nothing but the narrow alphabet is read."""
    body = msgspec.to_builtins(SNAPSHOT) | {field: value}

    with pytest.raises(InvalidMessage, match=field):
        messages.decode(msgspec.json.encode(body), SnapshotRef)
