"""Serves what needs no pod, `ckpt.any.<op>`: pins of forks, names of snapshots, differences between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from checkpointer.core.keeping import labelled, of_fork, pinned
from checkpointer.loops.change_head import change_head
from checkpointer.ports.collecting import Heads
from checkpointer.ports.trees import Trees
from shared import logs, messages
from shared.errors import Conflict, NotFound, ServiceError, Unavailable
from shared.snapshots import CompareAsk, KeeperAnswer, LabelAsk, PinAsk

log = logs.get(__name__)

AT_ONCE = 4
"""Looks into snapshots that one node takes at once."""
WAITING_MAX = 64
LOOK_S = 20.0

T = TypeVar("T")


class Keeper:
    """One checkpointer's part of it: all of them share the work by a queue group, and are safe together by the writes."""

    def __init__(self, heads: Heads, trees: Trees) -> None:
        """Change `heads`, look into `trees`."""
        self._heads = heads
        self._trees = trees
        self._looking = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._ops: dict[str, Callable[[bytes], Awaitable[KeeperAnswer]]] = {
            "pin": self._pin,
            "name": self._name,
            "diff": self._differ,
        }

    async def serve(self, op: str, body: bytes) -> KeeperAnswer:
        """Do what is asked; what went wrong is in the answer."""
        try:
            if (act := self._ops.get(op)) is None:
                raise NotFound(f"nothing to ask under {op[:40]!r}: {', '.join(self._ops)}")
            return await act(body)
        except ServiceError as exc:
            log.info("keeper.refused", op=op, code=exc.code, error=str(exc))
            return KeeperAnswer(error=exc.info())

    async def _pin(self, body: bytes) -> KeeperAnswer:
        ask = messages.decode(body, PinAsk)
        await change_head(
            self._heads, ask.tenant, ask.session, lambda head: pinned(head, ask.snapshot, ask.fork)
        )
        first = of_fork((ask.tenant, ask.fork_pool, ask.fork), ask.session, ask.snapshot)
        try:
            await self._heads.write(first, 0)
        except Conflict:  # it was asked for before
            log.debug("fork.has_head", session_id=ask.fork)
        return KeeperAnswer()

    async def _name(self, body: bytes) -> KeeperAnswer:
        ask = messages.decode(body, LabelAsk)
        await change_head(
            self._heads,
            ask.tenant,
            ask.session,
            lambda head: labelled(head, ask.snapshot, ask.name),
        )
        return KeeperAnswer()

    async def _differ(self, body: bytes) -> KeeperAnswer:
        ask = messages.decode(body, CompareAsk)
        changes, more = await self._look(
            lambda: self._trees.differ(ask.before, ask.after, ask.skip, ask.limit)
        )
        return KeeperAnswer(changes=changes, more=more)

    async def _look(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do what reads from the store, in its turn.

        Raises:
            Unavailable: too many wait, or it took too long.
        """
        if self._waiting >= WAITING_MAX:
            raise Unavailable(f"{self._waiting} looks into snapshots wait")
        self._waiting += 1
        try:
            async with asyncio.timeout(LOOK_S), self._looking:
                return await work()
        except TimeoutError as exc:
            raise Unavailable(f"not done within {LOOK_S:g} s") from exc
        finally:
            self._waiting -= 1
