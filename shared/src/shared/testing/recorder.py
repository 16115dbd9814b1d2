"""Writes a run's history down from outside: what the state streams store, at the moment they store it, and what stays.

A record keeps its last version only, so each version is heard live; what a dying server did not tell is read, where it
is still there. Every sequence of the state streams is accounted for: heard, read, or counted as `unseen`.

    async with record(bus, other_bus) as recorder:      # before the first publish
        ...                                             # load and faults; note each publish as `Accepted`
        verdict = judge(await recorder.history(accepted))
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

from shared import headers, messages, subjects
from shared.bus import Bus, Message, Stored
from shared.errors import OutcomeUnknown, ServiceError, Unavailable
from shared.ids import SHARDS
from shared.messages import TaskResult
from shared.record import Record
from shared.testing.history import (
    Accepted,
    Begin,
    History,
    Outcome,
    Place,
    TaskKey,
    Version,
)

FOLLOW_EVERY_S = 0.5
"""What was not heard is read after so long: the sooner, the less of it is overwritten."""
READ_WITHIN_S = 60.0
"""Bound of the reading at the end, seconds: an election and more."""
STATES = tuple(subjects.state_stream(shard) for shard in range(SHARDS))
INBOXES = tuple(subjects.inbox_stream(shard) for shard in range(SHARDS))
QUEUES = tuple(subjects.queue_stream(shard) for shard in range(SHARDS))
_T = TypeVar("_T")


class Recorder:
    """What was heard and read so far. `record` makes one."""

    def __init__(self, bus: Bus) -> None:
        """Read through `bus`, which may do everything."""
        self.stored: dict[Place, tuple[str, bytes]] = {}
        """Subject (from `rec`, `job` or `done` on) and body of all that was stored since the beginning."""
        self.hearers: list[Callable[[Place, str, bytes], None]] = []
        """Called with each; plain functions, short."""
        self._bus = bus
        self._began: dict[str, int] = {}
        """Last sequence of each stream at the beginning."""
        self._followed: dict[int, int] = {}
        """Up to here, a shard's sequences are known or will never be."""

    # --- meanwhile ---------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Note where the streams are: what lies before is not looked at."""
        for stream in (*STATES, *INBOXES, *QUEUES, subjects.OUTPUT_STREAM):
            self._began[stream] = await self._last_seq(stream)
        self._followed = {int(stream): self._began[stream] for stream in STATES}

    def hear(self, message: Message) -> None:
        """Take in what a state stream republishes."""
        at = int(message.headers["Nats-Stream"]), int(message.headers["Nats-Sequence"])
        self._take(at, message.subject, message.data)

    async def follow(self, shard: int) -> None:
        """Read what was not heard of a shard, until cancelled."""
        while True:
            await asyncio.sleep(FOLLOW_EVERY_S)
            with suppress(ServiceError):  # no replica answers: the next time
                await self._fill(shard)

    def _take(self, at: Place, subject: str, data: bytes) -> None:
        if at[1] <= self._began[str(at[0])] or at in self.stored:
            return
        self.stored[at] = (subject, data)
        for hearer in self.hearers:
            hearer(at, subject, data)

    async def _fill(self, shard: int) -> None:
        """Read on from the first sequence that was not heard; what is not there any more was overwritten."""
        known = self._followed[shard]
        while (shard, known + 1) in self.stored:
            known += 1
        self._followed[shard] = known
        try:
            last = await self._last_seq(subjects.state_stream(shard), timeout_s=FOLLOW_EVERY_S)
        except ServiceError:
            # Its leader may have died without telling what it stored last: read it before another one goes on.
            await self._read(shard, known, 0)
            return
        if known < last:
            await self._read(shard, known, last)
            self._followed[shard] = last

    async def _read(self, shard: int, after: int, last: int) -> set[Place]:
        """Take in what a shard holds beyond sequence `after`; return where.

        Raises:
            Unavailable: the replica that answered has not got as far as `last`.
        """
        found: set[Place] = set()
        async for one in self._bus.scan(
            subjects.state_stream(shard), f"s.{shard}.>", after_seq=after
        ):
            found.add((shard, one.seq))
            self._take((shard, one.seq), one.subject.split(".", 2)[2], one.data)
        _, reached = max(found, default=(shard, after))
        if reached < last and await self._holds_more(shard, reached):
            raise Unavailable(f"stream {shard}: read from a replica that is behind")
        return found

    async def _holds_more(self, shard: int, after: int) -> bool:
        """Return whether a shard's leader has anything beyond a sequence: what was stored last may be removed by now."""
        stream = subjects.state_stream(shard)
        return await self._bus.read_next(stream, f"s.{shard}.>", after_seq=after) is not None

    async def _last_seq(self, stream: str, *, timeout_s: float = 2.0) -> int:
        info = await self._bus.js_api(f"STREAM.INFO.{stream}", {}, timeout_s=timeout_s)
        return int(info["state"]["last_seq"])

    # --- at the end --------------------------------------------------------------------------------------------------

    async def history(
        self,
        accepted: Iterable[Accepted],
        *,
        tenant: str | None = None,
        journals: Mapping[TaskKey, tuple[str, ...]] | None = None,
    ) -> History:
        """Return all that is known. Call it when the load has come to rest: it reads everything once more.

        Args:
            accepted: what was published; what the streams hold beyond it is added, with any status expected.
            tenant: only this tenant's; None: everybody's.
            journals: see `History`.

        Raises:
            ServiceError: the streams could not be read to their end in time.
        """
        kept: set[Place] = set()
        unseen = 0
        ends: dict[int, int] = {}
        for stream in STATES:
            last, places = await self._patiently(partial(self._read_all, int(stream)))
            ends[int(stream)] = last
            kept |= places
            unseen += sum(
                (int(stream), seq) not in self.stored
                for seq in range(self._began[stream] + 1, last + 1)
            )
        versions, outcomes = self._decode(tenant, ends)
        entries = [
            one for one in await self._patiently(self._entries) if tenant in (None, one.tenant)
        ]
        begins = [
            one for one in await self._patiently(self._begins) if tenant in (None, one.tenant)
        ]
        return History(
            accepted=(*accepted, *entries, *_first_tasks(versions)),
            versions=tuple(versions),
            outcomes=tuple(outcomes),
            kept=frozenset(kept),
            begins=tuple(begins),
            journals=journals or {},
            unseen=unseen,
        )

    def _decode(
        self, tenant: str | None, ends: Mapping[int, int]
    ) -> tuple[list[Version], list[Outcome]]:
        """Return what was stored up to each shard's end: beyond it, half of a batch may have been read."""
        versions, outcomes = [], []
        for at, (subject, data) in self.stored.items():
            kind, *names = subject.split(".")
            if at[1] > ends[at[0]]:
                continue
            if kind == "rec" and tenant in (None, names[1]):
                versions.append(Version(at, messages.decode(data, Record)))
            elif kind == "done" and tenant in (None, names[0]):
                outcomes.append(Outcome(at, messages.decode(data, TaskResult)))
        return versions, outcomes

    async def _read_all(self, shard: int) -> tuple[int, set[Place]]:
        """Return a shard's last sequence, and the places of all that it holds."""
        stream = subjects.state_stream(shard)
        last = await self._last_seq(stream)
        return last, await self._read(shard, self._began[stream], last)

    async def _entries(self) -> list[Accepted]:
        """Return what still lies in inboxes and lanes, whoever published it."""
        found = []
        for stream in INBOXES:
            async for one in self._lying(stream, "in.>"):
                tenant, session, task = subjects.parse_task(one.subject)
                found.append(
                    Accepted(tenant=tenant, session=session, task=task, seq=one.seq, expect=())
                )
        for stream in QUEUES:
            async for one in self._lying(stream, "q.>"):
                tenant = subjects.parse_queue(one.subject)[1]
                first = headers.own_id(one.headers.get(headers.MESSAGE_ID), tenant)
                if headers.TOKEN not in one.headers and first:
                    found.append(Accepted(tenant=tenant, session=first, task=first, expect=()))
        return found

    async def _lying(self, stream: str, subject_filter: str) -> AsyncIterator[Stored]:
        """Yield what a stream holds, as its leader has it."""
        after = self._began[stream]
        while (
            one := await self._bus.read_next(stream, subject_filter, after_seq=after)
        ) is not None:
            after = one.seq
            yield one

    async def _begins(self) -> list[Begin]:
        """Return the starts of user code that the output stream tells of."""
        found, stream = [], subjects.OUTPUT_STREAM
        async for one in self._bus.scan(stream, "out.>", after_seq=self._began[stream]):
            if one.headers.get(headers.EVENT) == "started":
                tenant, session, task = subjects.parse_task(one.subject)
                found.append(Begin(tenant, session, task, int(one.headers[headers.EPOCH])))
        return found

    async def _patiently(self, read: Callable[[], Awaitable[_T]]) -> _T:
        until = time.monotonic() + READ_WITHIN_S
        while True:
            try:
                return await read()
            except (Unavailable, OutcomeUnknown):
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(FOLLOW_EVERY_S)


def _first_tasks(versions: Iterable[Version]) -> list[Accepted]:
    """Return the first task of each session that has a record: it was accepted, whoever heard so."""
    return [
        Accepted(tenant=tenant, session=session, task=session, expect=())
        for tenant, session in {(one.record.tenant, one.record.session) for one in versions}
    ]


@asynccontextmanager
async def record(*buses: Bus) -> AsyncIterator[Recorder]:
    """Record from now on what the state streams store.

    Args:
        buses: connections that may do everything; several, to different servers, miss less when a server dies.

    Raises:
        ServiceError: no answer at the beginning.
    """
    recorder = Recorder(buses[0])
    await recorder.begin()
    heard = [
        await bus.subscribe(f"{kind}.>", recorder.hear)
        for bus in buses
        for kind in ("rec", "job", "ws", "done")  # all that a state stream holds
    ]
    following = {asyncio.create_task(recorder.follow(shard)) for shard in range(SHARDS)}
    try:
        yield recorder
    finally:
        for task in following:
            task.cancel()
        await asyncio.wait(following)
        for subscription in heard:
            await subscription.unsubscribe()
