"""What an ask says beside its job: which trace it belongs to, and what the pool excludes."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from checkpointer.testing.live import Live, Owned, files, fill, saved
from shared import messages, subjects
from shared.traces.context import Context
from shared.traces.span import Span, SpanBatch
from shared.workspace import SnapshotRef


async def test_a_job_is_a_span_of_its_task_s_trace(live: Live, owned: Owned) -> None:
    """As its asker says; told to whichever pool-manager exports it. Of one that is not traced, nothing."""
    heard: asyncio.Queue[SpanBatch] = asyncio.Queue()
    await live.bus.subscribe(
        subjects.spans("*", live.node),
        lambda message: heard.put_nowait(messages.decode(message.data, SpanBatch)),
    )
    before = fill(live.workspace(owned.pod))
    asked = Context("1" * 32, "2" * 16)
    await saved(owned)
    (live.workspace(owned.pod) / "more").write_text("4321" * 100)
    ask = replace(owned.asking("save"), traceparent=asked.traceparent)
    assert (await live.ask(ask)).state == "done"
    missing = replace(
        owned.asking("restore", SnapshotRef(id="0" * 64, pack="a/b/c", at_ms=1), pod="default-1-1"),
        traceparent=asked.traceparent,
    )
    assert (await live.ask(missing)).state == "failed"

    spans: list[Span] = []
    async with asyncio.timeout(10):
        while len(spans) < 2:
            batch = await heard.get()
            assert (batch.service, batch.node) == ("checkpointer", live.node)
            spans += batch.spans
    save, restore = spans
    assert {(one.trace, one.parent) for one in spans} == {(asked.trace_id, asked.span_id)}
    assert (save.name, save.error, restore.name) == ("save snapshot", "", "restore snapshot")
    assert restore.error == "stale_epoch"
    assert save.attributes["agent_sandbox.session.id"] == owned.record.session
    assert int(save.attributes["agent_sandbox.snapshot.bytes"]) >= 400
    assert before


async def test_what_a_pool_excludes_is_neither_saved_nor_rescued(live: Live, owned: Owned) -> None:
    """By the worker's ask, and where the worker is dead by what it left word of."""
    exclude = ("*.bin", "src/*")
    kept = fill(live.workspace(owned.pod))
    answer = await live.ask(replace(owned.asking("save"), exclude=exclude))
    assert answer.snapshot is not None, answer.error
    (live.workspace(owned.pod) / "more").write_text("after the last snapshot")
    (live.workspace(owned.pod) / "more.bin").write_text("excluded")
    await owned.write(
        replace(
            owned.record, state="rescuing", owner=f"ckpt-{live.node}", epoch=2,
            boundary=answer.snapshot,
        )
    )  # fmt: skip
    owned.mark(exclude=exclude)

    answer = await live.ask(owned.asking("rescue", answer.snapshot), "rescue")
    record = await owned.read()
    assert answer.snapshot is not None, answer.error
    stored = await live.bus.read_last(*owned.where)
    assert stored is not None
    owned.seq = stored.seq  # of the rescue's own write
    await owned.write(replace(record, state="running", owner="default-2-1", epoch=3))
    other = live.workspace("default-2-1")
    await live.ask(owned.asking("restore", answer.snapshot, pod="default-2-1"), "default-2-1")

    assert files(other).keys() == {"more"}
    assert {"big.bin", "src/main.py"} <= kept.keys()
