"""What a client is told that an interruption cost."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared.heads import head_for
from shared.pools import OnInterrupt
from shared.record import Death, Origin, Record
from shared.transitions import claim, create, revoke
from shared.workspace import Latest, SnapshotRef
from worker_agent.core.recovery import recovery_of

TASK = "task-0001"
BOUNDARY = SnapshotRef(id="a" * 64, pack="t/s/p1", at_ms=1_000)
NEWEST = SnapshotRef(id="b" * 64, pack="t/s/p2", at_ms=3_000)


def interrupted(death: Death, saved: int | None) -> Record:
    """Return the record of a session that is owned again after a loss in its task.

    Args:
        death: of its owner, under epoch 1.
        saved: epoch under which its newest snapshot was taken; None: there is none.
    """
    origin = Origin(session="session01", tenant="t", pool="p", lane="batch", accepted_ms=1)
    record = create(origin, owner="w1", node="n1", now_ms=500)
    record = replace(record, keep=True, first_done=True, last_done_ms=2_000, boundary=BOUNDARY)
    record = revoke(record, death=death, now_ms=4_000)
    if saved is not None:
        latest = Latest(snapshot=NEWEST, task=TASK, attempt=1, epoch=saved)
        record = replace(record, latest=latest)
    return claim(record, owner="w2", node="n2", now_ms=4_100)


@pytest.mark.parametrize(
    ("rule", "saved", "unsaved_bytes", "lost_s", "lost_bytes"),
    [
        ("rerun", None, 4_096, 1.9, 4_096),
        ("rerun", 1, 4_096, 1.9, 4_096),
        ("rerun", 1, 0, 1.9, None),  # of its last look, before the task wrote
        ("resume", 1, 512, 0.9, 512),
        ("fail", 1, 512, 0.9, 512),
        ("resume", 2, 512, 0.0, 0),  # rescued once its worker was dead
        ("fail", 2, 512, 0.0, 0),
        ("resume", None, None, 1.9, None),
    ],
)
def test_what_is_rolled_back_is_what_the_lost_worker_said_unless_it_was_rescued(
    rule: OnInterrupt, saved: int | None, unsaved_bytes: int | None, lost_s: float, lost_bytes: int
) -> None:
    """Zero is said only where it is known: after a rescue. What nobody measured is not known."""
    death = Death(
        cause="node_lost", process_died=False, task=TASK, silent_ms=100, unsaved_bytes=unsaved_bytes
    )
    record = interrupted(death, saved)

    recovery = recovery_of(record, TASK, rule, head_for(record, TASK, rule), (4_200, 4_300))

    assert recovery is not None
    assert (recovery.work_lost_s, recovery.work_lost_bytes) == (lost_s, lost_bytes)
