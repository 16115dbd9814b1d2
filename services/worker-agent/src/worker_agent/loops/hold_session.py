"""A bound worker: the first task, then the inbox in order, then the release. Every write carries the epoch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from shared import logs, transitions
from shared.classes import CLIENT_CLASSES
from shared.errors import Conflict, InvalidMessage, OutcomeUnknown, StaleEpoch, Unavailable
from shared.ids import can_be_found, home
from shared.record import Hold, Record, is_mine
from shared.service import Stop
from shared.subjects import inbox_stream
from shared.traces.context import parse_context
from worker_agent.core import lanes
from worker_agent.core.claims import entry_problem, read_replay_of
from worker_agent.core.work import Taken, Work
from worker_agent.loops.bury import bury
from worker_agent.loops.commit import Committer
from worker_agent.loops.files import Files
from worker_agent.loops.run_task import TaskRunner
from worker_agent.ports import Entry, Held, Truth

log = logs.get(__name__)

REREAD_S = 2.0
"""An owner reads its inbox again after so long even if no wake-up was heard."""
RETRY_S = 0.25
"""Pause before a read that got no answer is tried again."""
ASKS_READ_MAX = 32
"""Entries of an inbox that are read for the class that they ask for."""
_T = TypeVar("_T")


class SessionHolder:
    """Works off one session until it is closed, released or lost."""

    def __init__(
        self,
        truth: Truth,
        runner: TaskRunner,
        committer: Committer,
        files: Files,
        *,
        on_kept: Callable[[Held], Awaitable[object]],
    ) -> None:
        """Read from `truth`, run by `runner`, write by `committer`, save by `files`.

        `on_kept` is awaited once before the inbox of a kept session is read: to hear of what comes in later.
        """
        self._truth = truth
        self._runner = runner
        self._committer = committer
        self._files = files
        self._on_kept = on_kept
        self.wake = asyncio.Event()
        """Set when the session's inbox got something."""

    async def hold(self, held: Held, stop: Stop, *, idle_release_s: float) -> None:
        """Work until the session ends, is released, or another owner has it.

        Args:
            held: the session that was won.
            stop: set when the worker is to leave: the present task is finished, then the session is released.
            idle_release_s: seconds without a task after which the session is released.

        Raises:
            StaleEpoch: another owner has the session; the pod must end at once.
            OutcomeUnknown: a shard did not answer for too long.
        """
        if not held.record.first_done:
            payload = held.payload
            if payload is None:
                payload = await self._payload(held.record)
            await self._runner.run(
                held,
                Work(
                    task=held.record.session,
                    body=payload,
                    accepted_ms=held.record.accepted_ms,
                    taken=_take(held),
                    replay_of=held.record.replay_of,
                    origin=held.origin,
                    trace=parse_context(held.record.traceparent, held.record.tracestate),
                ),
            )
        if held.record.state == "running":
            await self._on_kept(held)
        seen = held.record.position
        while held.record.state == "running" and not self._runner.must_leave:
            entry = await self._next(held, seen, stop, idle_release_s)
            if entry is None:
                if await self._release(held, seen, stop):
                    return
                continue
            seen = entry.seq
            if not can_be_found(entry.task):
                await self._bury(held.record, entry)
                held.record = transitions.skip(held.record, held.hold, position=seen)
                continue
            if await self._has_result(held.record, entry.task):
                # Cancelled, or its own late commit. Past it, what was counted against it is no longer the next one's.
                held.record = transitions.skip(held.record, held.hold, position=seen)
                continue
            await self._runner.run(held, _work_of(held.record, entry, _take(held)))
        if held.record.state == "running":
            await self._release(held, seen, stop)

    async def _next(self, held: Held, seen: int, stop: Stop, idle_release_s: float) -> Entry | None:
        """Return the next inbox entry; None when the session was idle too long or the worker is to leave."""
        idle_until = time.monotonic() + (0 if self._runner.rests else idle_release_s)
        while not self._runner.must_leave and not stop.is_set:
            self.wake.clear()
            try:
                entry = await self._truth.next_entry(held.record, seen)
            except (Unavailable, OutcomeUnknown):
                await asyncio.sleep(RETRY_S)
                continue
            left_s = idle_until - time.monotonic()
            if entry is not None or left_s <= 0:
                return entry
            held.taken = None  # what comes now did not ask for this worker
            await self._wait_for_wake(stop, min(REREAD_S, left_s))
        return None

    async def _wait_for_wake(self, stop: Stop, timeout_s: float) -> None:
        waits = [
            asyncio.ensure_future(one)
            for one in (self.wake.wait(), stop.wait(), self._runner.wait_sandbox_lost())
        ]
        try:
            await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _release(self, held: Held, seen: int, stop: Stop) -> bool:
        """Give the session up: idle, then one more look at the inbox. Return False when it was taken back."""
        before, hold = await self._files.rest(held), held.hold
        released = transitions.release(
            before,
            hold,
            position=seen,
            now_ms=int(time.time() * 1000),
            cause="sandbox_lost" if self._runner.sandbox_lost else "released",
        )
        await self._committer.write(held, released)
        # From here on the session is nobody's. Whatever fails below, the sweeper sees its inbox, and whoever owns it
        # without naming it in a heartbeat is revoked.
        try:
            entry = await self._truth.next_entry(held.record, seen)
            if entry is None:
                return True
            if stop.is_set or self._runner.must_leave:
                # For another worker: a pool-manager sends the token of what is queued and unclaimed.
                lane = await self._asked_lane(held.record, entry)
                woken = transitions.wake(held.record, lane=lane)
                held.seq = await self._truth.write(woken, held.seq)
                return True
            back = transitions.take_back(held.record, before)
            held.seq = await self._take_back(back, held.seq, hold)
        except (Conflict, Unavailable, OutcomeUnknown) as exc:
            log.info("session.left", session_id=before.session, error=exc.code)
            return True
        held.record = back
        await self._files.taken_back(held)
        return False

    async def _asked_lane(self, record: Record, entry: Entry) -> str:
        """Return the most urgent class that an entry and those behind it ask for."""
        asked, lane = {entry.headers.klass}, ""
        for _ in range(ASKS_READ_MAX):
            lane = lanes.lane_for(asked, record.client_lane)
            following = await self._truth.next_entry(record, entry.seq)
            if lane == CLIENT_CLASSES[0] or following is None:
                break
            entry = following
            asked.add(entry.headers.klass)
        return lane

    async def _take_back(self, back: Record, seq: int, hold: Hold) -> int:
        try:
            return await self._truth.write(back, seq)
        except OutcomeUnknown:
            found = await self._truth.read(back.tenant, back.session, back.pool)
            if found is None or not is_mine(found[0], hold):
                raise
            return found[1]

    async def _payload(self, record: Record) -> bytes:
        payload = await self._patiently(record, lambda: self._truth.payload(record))
        if payload is None:
            raise StaleEpoch(f"session {record.session}: its payload is gone, so is its record")
        return payload

    async def _bury(self, record: Record, entry: Entry) -> None:
        """Make a dead letter of a task that could not be found again by its name: it gets no result."""
        work = _work_of(record, entry, _bound())
        wrong = InvalidMessage(work.problem or f"subject: {entry.task[:80]!r} is no id")
        await bury(self._truth, record, work, wrong, give_up_s=self._committer.give_up_s)

    async def _has_result(self, record: Record, task: str) -> bool:
        return await self._patiently(record, lambda: self._truth.result_exists(record, task))

    async def _patiently(self, record: Record, read: Callable[[], Awaitable[_T]]) -> _T:
        """Read, again while the shard does not answer.

        Raises:
            OutcomeUnknown: no answer for too long.
        """
        end_at = time.monotonic() + self._committer.give_up_s
        while True:
            try:
                return await read()
            except (Unavailable, OutcomeUnknown) as exc:
                if time.monotonic() >= end_at:
                    raise OutcomeUnknown(f"session {record.session}: no answer: {exc}") from exc
            log.info("truth.waited_for", session_id=record.session)
            await asyncio.sleep(RETRY_S)


def _take(held: Held) -> Taken:
    """Return how the next task comes to this worker: the first one that waits for it, by what the session came by."""
    taken, held.taken = held.taken, None
    return taken or _bound()


def _bound() -> Taken:
    now_ms = time.time() * 1000
    return Taken(path="bound", delivered_ms=now_ms, claimed_ms=now_ms)


def _work_of(record: Record, entry: Entry, taken: Taken) -> Work:
    return Work(
        task=entry.task,
        body=entry.body,
        accepted_ms=entry.accepted_ms,
        taken=taken,
        inbox_seq=entry.seq,
        problem=entry_problem(record.session, entry.task, entry.headers),
        replay_of=read_replay_of(entry.headers)[0],
        origin=f"{inbox_stream(home(record.session))}/{entry.seq}",
        trace=entry.headers.trace,
    )
