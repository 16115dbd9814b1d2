"""What counts as a pack that is damaged or gone, and so alarms people."""

from __future__ import annotations

import pytest

from checkpointer.loops.measure import Measured
from checkpointer.ports.blobs import PackMissing
from checkpointer.ports.engine import Progress
from shared.errors import Damaged, NotFound, ServiceError
from shared.metrics import DECLARED, Book
from shared.traces.span import Span
from shared.workspace import CheckpointAsk, Op, SnapshotRef


class NoSpans:
    """Nobody asks for traces here."""

    async def tell(self, pool: str, spans: tuple[Span, ...]) -> None:
        """Fail: there are none."""
        raise AssertionError(f"{pool}: {spans}")


@pytest.mark.parametrize(
    ("op", "error", "counted"),
    [
        ("restore", PackMissing("gone"), [(("restore", "missing"), 1.0)]),
        ("restore", Damaged("another hash"), [(("restore", "damaged"), 1.0)]),
        ("rescue", NotFound("the workspace is not this session's"), []),
        ("restore", NotFound("pod: it is not here"), []),
    ],
)
async def test_only_what_is_wrong_with_a_pack_is_counted(
    op: Op, error: ServiceError, counted: list[tuple[tuple[str, str], float]]
) -> None:
    """A rescue that finds nothing to save is an everyday thing; an alarm for it would be ignored one day."""

    async def work(ask: CheckpointAsk, progress: Progress) -> SnapshotRef | None:
        raise error

    book = Book(DECLARED["checkpointer"])
    ask = CheckpointAsk(
        job="job-1", op=op, tenant="acme", pool="p", session="session01", epoch=2, pod="p-0-1", left_s=5.0
    )  # fmt: skip
    with pytest.raises(type(error)):
        await Measured(work, book, 90.0, NoSpans())(ask, Progress())

    lines = book.render()[0].decode().splitlines()
    bad = [one for one in lines if one.startswith("agent_sandbox_checkpoint_packs_bad_total{")]
    wanted = [
        f'agent_sandbox_checkpoint_packs_bad_total{{op="{what}",reason="{reason}"}} {times}'
        for (what, reason), times in counted
    ]
    assert bad == wanted
