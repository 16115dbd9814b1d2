"""Looking at the outside world in tests: what streams hold, and waiting until something is so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from shared import headers, messages, subjects
from shared.bus import Bus, Stored
from shared.errors import Unavailable
from shared.ids import SHARDS, home
from shared.messages import TaskResult
from shared.record import Record


async def until(
    check: Callable[[], Any],
    *,
    within_s: float = 20.0,
    seen: Callable[[], Awaitable[Any]] | None = None,
) -> Any:
    """Return the first true value of `check`, a function or coroutine function; fail when it stays false.

    A failure tells what `seen` returns then: what was there instead. What can't be looked at now, since a shard elects its leader, is looked at again: a busy machine elects more often.
    """
    end, why = time.monotonic() + within_s, ""
    while True:
        try:
            value = check()
            if isinstance(value, Awaitable):
                value = await value
        except Unavailable as exc:
            value, why = None, f": {exc}"
        if value:
            return value
        if time.monotonic() >= end:
            if seen is not None:
                why += f"; instead: {await seen()}"
            raise AssertionError(f"not within {within_s} s{why}")
        await asyncio.sleep(0.02)


def now_ms() -> int:
    """Return the wall clock, milliseconds since 1970."""
    return int(time.time() * 1000)


class Look:
    """Reads what the streams hold of one tenant, from their leaders."""

    def __init__(self, bus: Bus, tenant: str) -> None:
        """Look through a connection that may do everything."""
        self.bus = bus
        self.tenant = tenant

    async def stored(self, session: str) -> Stored | None:
        """Return the session's record as stored."""
        return await self.bus.read_last(
            subjects.state_stream(home(session)), subjects.any_pool_record(self.tenant, session)
        )

    async def record(self, session: str) -> Record | None:
        """Return the session's record."""
        stored = await self.stored(session)
        return None if stored is None else messages.decode(stored.data, Record)

    async def in_state(self, session: str, state: str, *, within_s: float = 10.0) -> Record:
        """Wait until the session is in a state; return its record."""

        async def reached() -> Record | None:
            record = await self.record(session)
            return record if record is not None and record.state == state else None

        found: Record = await until(reached, within_s=within_s)
        return found

    async def result(self, session: str, task: str | None = None) -> TaskResult | None:
        """Return the result of a task, by default of the session's first."""
        subject = subjects.stored_result(self.tenant, session, task or session)
        stored = await self.bus.read_last(subjects.state_stream(home(session)), subject)
        return None if stored is None else messages.decode(stored.data, TaskResult)

    async def tokens(self, session: str) -> list[str]:
        """Return the subjects of all tokens of a session that lie in the lanes."""
        found = []
        for shard in range(SHARDS):
            after = 0
            while (
                stored := await self.bus.read_next(
                    subjects.queue_stream(shard), "q.>", after_seq=after
                )
            ) is not None:
                after = stored.seq
                if stored.headers.get(headers.TOKEN) == session:
                    found.append(stored.subject)
        return found

    async def inbox_size(self, session: str) -> int:
        """Return how many entries a session's inbox has."""
        info = await self.bus.js_api(
            f"STREAM.INFO.{subjects.inbox_stream(home(session))}",
            {"subjects_filter": subjects.inbox(self.tenant, session)},
        )
        return len(info["state"].get("subjects") or {})

    async def ended(self, session: str, task: str, *, within_s: float = 10.0) -> TaskResult:
        """Wait for a task's result."""
        found: TaskResult = await until(lambda: self.result(session, task), within_s=within_s)
        return found

    async def emptied(self, session: str) -> None:
        """Wait until a session's inbox is empty."""

        async def is_empty() -> bool:
            return await self.inbox_size(session) == 0

        await until(is_empty)

    async def send(
        self, session: str, task: str, klass: str | None = None, *, body: bytes = b"{}"
    ) -> int:
        """Put a task into a session's inbox, asking for a class; return its stream sequence."""
        subject = subjects.inbox(self.tenant, session, task)
        ack = await self.bus.publish_acked(
            subject,
            body,
            message_id=f"{session}:{task}",
            headers=None if klass is None else {headers.CLASS: klass},
        )
        return ack.seq
