"""A dead pod's files may go while they are read: then nothing was saved, and nobody believes it was."""

from __future__ import annotations

import pytest

from checkpointer.loops.work import Bounds, Work
from checkpointer.ports.engine import Owner, Place, Progress
from checkpointer.testing.interleave import Seen
from checkpointer.testing.world import FakeHeads, FakeRecords, Truth
from shared.errors import Unavailable
from shared.record import Record
from shared.workspace import CheckpointAsk, Mark, SnapshotRef

READ = SnapshotRef(id="a" * 64, pack="t/session-1/pack", at_ms=1)
MARK = Mark(session="session-1", epoch=1)
RESCUING = Record(
    session="session-1", tenant="t", pool="p", state="rescuing", lane="recovery", client_lane="batch", keep=True,
    accepted_ms=1, epoch=2, owner="ckpt-n", node="n", first_done=True, rescue_pod="w",
)  # fmt: skip
ASK = CheckpointAsk(
    job="rescue-session-1-2", op="rescue", tenant="t", pool="p", session="session-1", epoch=2, pod="w"
)  # fmt: skip


class Going:
    """The workspace of a pod that somebody removes while it is read, or does not."""

    def __init__(self, after: Mark | None) -> None:
        """`after` is what its worker is found to say of it when it was read."""
        self.after = after
        self.read = False

    async def mark(self, _pod: str) -> Mark | None:
        """See `ports.engine.Engine`."""
        return self.after if self.read else MARK

    async def save(
        self, _place: Place, _owner: Owner, _parent: SnapshotRef | None, _progress: Progress
    ) -> SnapshotRef | None:
        """See `ports.engine.Engine`."""
        self.read = True
        return READ

    async def restore(self, _place: Place, _snapshot: SnapshotRef, _progress: Progress) -> None:
        """See `ports.engine.Engine`."""
        raise NotImplementedError


def working(truth: Truth, engine: Going) -> Work:
    """Return what does the jobs of node `n`; the session is in its rescue."""
    truth.records["session-1"] = (RESCUING, 7)
    heads, records = FakeHeads(truth, Seen()), FakeRecords(truth, Seen())
    return Work("n", engine, records, (heads, records), Bounds())


async def test_a_workspace_that_is_there_to_the_end_is_rescued() -> None:
    """It is the session's boundary then."""
    truth = Truth()

    assert await working(truth, Going(MARK))(ASK, Progress()) == READ

    record, _ = truth.records["session-1"]
    assert (record.state, record.boundary) == ("queued", READ)


@pytest.mark.parametrize("after", [None, Mark(session="session-1", epoch=1, task="task-0002")])
async def test_a_workspace_that_is_not_what_it_was_is_not_rescued(after: Mark | None) -> None:
    """Taken away, or gone on in: the session keeps what it had, and no snapshot is there to be taken for one."""
    truth = Truth()

    with pytest.raises(Unavailable, match="while it was read"):
        await working(truth, Going(after))(ASK, Progress())

    assert truth.records["session-1"] == (RESCUING, 7)
    assert truth.heads == {}
