"""Rules 2 and 3, carried out: a write that got no answer is decided by reading the record first."""

from __future__ import annotations

import asyncio
import random
import time

from shared import logs
from shared.errors import Conflict, LimitExceeded, OutcomeUnknown, StaleEpoch, Unavailable
from shared.messages import TaskResult
from shared.record import Record, is_mine
from worker_agent.core.results import surely_fits
from worker_agent.ports import Held, Truth

log = logs.get(__name__)

RETRY_MIN_S = 0.05
RETRY_MAX_S = 0.25


class Committer:
    """Writes for an owner, for as long as it is the owner."""

    def __init__(self, truth: Truth, *, give_up_s: float) -> None:
        """Write to `truth`; give up after `give_up_s` seconds without an answer."""
        self._truth = truth
        self.give_up_s = give_up_s
        self._writing = asyncio.Lock()
        """One write after the other: each needs the sequence of the one before."""

    async def commit(self, held: Held, record: Record, result: TaskResult) -> bool:
        """Commit result and record in one batch; afterwards `held` is what the store has.

        Returns:
            True if this result is the task's result; False if another one was there (a cancel that raced).

        Raises:
            StaleEpoch: another owner has the session.
            LimitExceeded: the result is too large to store.
            OutcomeUnknown: no answer for `give_up_s` seconds.
        """
        async with self._writing:
            return await self._commit(held, record, result)

    async def _commit(self, held: Held, record: Record, result: TaskResult) -> bool:
        deadline = time.monotonic() + self.give_up_s
        while True:
            try:
                held.seq = await self._truth.commit(record, held.seq, result)
            except (Conflict, OutcomeUnknown, Unavailable, LimitExceeded) as exc:
                if isinstance(exc, LimitExceeded) and not surely_fits(result):
                    raise  # else the store is full, which passes
                log.info("commit.unsure", session_id=record.session, error=exc.code)
            else:
                held.record = record
                return True
            if await self._resolve(held, record, deadline):
                return True
            if await self._has_result(held, result.task, deadline):
                # Its own, too, may have landed between the two readings; then the record has it by now.
                return await self._resolve(held, record, deadline)

    async def write(self, held: Held, record: Record) -> None:
        """Write the record alone, with the same care.

        Raises:
            StaleEpoch: another owner has the session.
            OutcomeUnknown: no answer for `give_up_s` seconds.
        """
        async with self._writing:
            await self._write(held, record)

    async def confirm(self, held: Held) -> bool:
        """Have a majority of the servers say that the session is this owner's, by a write of its record as it is.

        A read would not do: a server that is cut off from the others answers it for a while from what it knew.

        Returns:
            False: that is not known now.

        Raises:
            StaleEpoch: another owner has the session.
        """
        async with self._writing:
            record = held.record
            try:
                held.seq = await self._truth.write(record, held.seq)
            except (Conflict, OutcomeUnknown, Unavailable, LimitExceeded) as exc:
                log.info("hold.unsure", session_id=record.session, error=exc.code)
            else:
                return True
            try:
                found = await self._truth.read(record.tenant, record.session, record.pool)
            except (Unavailable, OutcomeUnknown):
                return False
            held.record, held.seq = _mine(found, held)
            return False

    async def _write(self, held: Held, record: Record) -> None:
        deadline = time.monotonic() + self.give_up_s
        while True:
            try:
                held.seq = await self._truth.write(record, held.seq)
            except (Conflict, OutcomeUnknown, Unavailable, LimitExceeded) as exc:
                log.info("write.unsure", session_id=record.session, error=exc.code)
            else:
                held.record = record
                return
            if await self._resolve(held, record, deadline):
                return

    async def _resolve(self, held: Held, wanted: Record, deadline: float) -> bool:
        """Read the record after an unsure write. True: the write had landed. False: still mine, write again."""
        while True:
            await self._pause(deadline, held)
            try:
                found = await self._truth.read(wanted.tenant, wanted.session, wanted.pool)
            except (Unavailable, OutcomeUnknown):
                continue
            if found is not None and found[0] == wanted:
                held.record, held.seq = found
                return True
            held.record, held.seq = _mine(found, held)
            return False

    async def _has_result(self, held: Held, task: str, deadline: float) -> bool:
        while True:
            try:
                return await self._truth.result_exists(held.record, task)
            except (Unavailable, OutcomeUnknown):
                await self._pause(deadline, held)

    async def _pause(self, deadline: float, held: Held) -> None:
        if time.monotonic() > deadline:
            raise OutcomeUnknown(
                f"session {held.record.session}: no answer for {self.give_up_s:.0f} s"
            )
        await asyncio.sleep(random.uniform(RETRY_MIN_S, RETRY_MAX_S))


def _mine(found: tuple[Record, int] | None, held: Held) -> tuple[Record, int]:
    """Return the record as read, and its sequence.

    Raises:
        StaleEpoch: somebody else has the session.
    """
    if found is None or not is_mine(found[0], held.hold):
        raise StaleEpoch(f"session {held.record.session}: another owner has it")
    return found
