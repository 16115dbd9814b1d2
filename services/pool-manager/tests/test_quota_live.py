"""Tenants' bounds on real servers: every accepted task gets its result, also the one that is too many."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pool_manager.adapters.objects import StreamObjects
from pool_manager.core.world import Bounds, World
from pool_manager.loops import cancel as cancel_loop
from pool_manager.loops.objects import ObjectKeeper
from shared import limits, messages, subjects
from shared.bus import Message
from shared.messages import CancelAnswer, CancelAsk
from shared.objects import write_object
from shared.quota import FullTenants
from shared.testing.look import Look, until
from shared.testing.names import unique


async def test_the_newest_entries_of_a_long_inbox_are_rejected(
    start: Any, node: Any, look: Look, tmp_path: Path
) -> None:
    """Of a session that is held: the oldest stay, the others get a result that names the bound."""
    stop = await start("pm-1")
    session = unique("session")
    worker = (await node.warm(1))[0]
    await worker.create(session)
    tasks = [f"task-{number:04d}" for number in range(6)]
    for task in tasks:
        await look.send(session, task)

    stop.set("test")
    await until(lambda: not (tmp_path / "pm-1.ready").exists())

    await start("pm-2", inbox_entries_max=4)

    async def is_cut() -> bool:
        return await look.inbox_size(session) == 4

    await until(is_cut, within_s=15.0)
    for task in tasks[:4]:
        assert await look.result(session, task) is None
    for task in tasks[4:]:
        result = await look.result(session, task)
        assert result is not None
        assert (result.status, result.reason) == ("rejected", "limit")
        assert result.error is not None
        assert "at most 4 " in result.error.message
        assert "INBOX_ENTRIES_MAX" in result.error.message


async def test_a_tenant_that_fills_inboxes_of_unknown_sessions_is_bounded(
    start: Any, look: Look
) -> None:
    """One entry in each of many inboxes: as many as may stay wait for their sessions, the others are rejected."""
    sessions = [unique("session") for _ in range(12)]
    for session in sessions:
        await look.send(session, "task-0001")

    await start("pm-1", tenant_inbox_entries_max=2)

    async def left() -> int:
        return sum([await look.inbox_size(session) for session in sessions])

    async def is_cut() -> bool:
        return await left() <= 6  # in three shards

    await until(is_cut)
    for session in sessions:
        result = await look.result(session, "task-0001")
        assert (result is None) == (await look.inbox_size(session) == 1)
        assert result is None or result.reason == "limit"


async def test_workers_are_told_who_is_full_and_who_is_not_any_more(
    start: Any, node: Any, look: Look
) -> None:
    """Workers made meanwhile find it in their settings."""
    heard: list[FullTenants] = []

    def hear(message: Message) -> None:
        heard.append(messages.decode(message.data, FullTenants))

    await look.bus.subscribe(subjects.FULL, hear)
    await start("pm-1", tenant_sessions_max=1)
    worker = (await node.warm(2))[0]
    await worker.create(unique("session"))

    said = await until(lambda: heard and heard[-1].full)
    assert [(one.tenant, one.sessions, one.sessions_max) for one in said] == [("acme", 1, 1)]
    other = next(w for w in node.workers.values() if w is not worker)
    await other.create(unique("session"))
    told = await until(
        lambda: [w for w in node.workers.values() if w.spec.settings["WORKER_FULL_TENANTS"]]
    )
    assert told[0].spec.settings["WORKER_FULL_TENANTS"] == "acme"

    await worker.finish(close=True)
    await other.finish(close=True)

    await until(lambda: not heard[-1].full)


@pytest.mark.parametrize("session", [None, "session-of-nobody"])
async def test_cancels_ahead_of_their_publish_are_bounded(
    start: Any, look: Look, monkeypatch: pytest.MonkeyPatch, session: str | None
) -> None:
    """Each leaves a record, or a result, for two days: of a session's first task, and of a later one."""
    monkeypatch.setattr(cancel_loop.limits, "CANCELS_AHEAD_MAX", 2)
    await start("pm-1")

    async def cancel() -> CancelAnswer:
        task = unique("session")
        reply = await look.bus.request(
            subjects.cancel("acme", session or task, task),
            messages.encode(CancelAsk(pool="default")),
            timeout_s=5.0,
        )
        return messages.decode(reply.data, CancelAnswer)

    assert [(await cancel()).outcome for _ in range(2)] == ["cancelled", "cancelled"]
    refused = await cancel()

    assert refused.outcome == "unknown"
    assert refused.error is not None
    assert refused.error.code == "limit_exceeded"
    assert "CANCELS_AHEAD_MAX" in refused.error.message


async def test_the_oldest_objects_of_a_tenant_go(look: Look) -> None:
    """Its newest stay, and another tenant's."""
    for shard in range(3):
        await look.bus.js_api(f"STREAM.PURGE.O{shard}", {})

    async def content() -> AsyncIterator[bytes]:
        yield b"x" * (limits.OBJECT_CHUNK_BYTES_MAX + 1)  # two chunks

    other = await write_object(look.bus, "other", content())
    mine = [await write_object(look.bus, "acme", content()) for _ in range(3)]
    world = World("pm-1", (), Bounds(1.5, 4.0, 0.3), time.monotonic())
    objects = StreamObjects(look.bus)

    await ObjectKeeper(world, objects, 4 * limits.OBJECT_CHUNK_BYTES_MAX).hold()

    left = {(one.tenant, one.object_id, one.chunks) for one in await objects.look()}
    assert left == {
        ("other", other.id, 2),
        ("acme", mine[1].id, 2),
        ("acme", mine[2].id, 2),
    }
    await objects.drop("acme", mine[1].id)
    await objects.drop("acme", mine[1].id)
    assert len(await objects.look()) == 2
