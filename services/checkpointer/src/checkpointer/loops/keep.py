"""Serves what needs no pod, `ckpt.any.<op>`: pins of forks, names of snapshots, and looks into them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from checkpointer.core.keeping import labelled, of_fork, pinned
from checkpointer.ports.heads import HeadStore
from checkpointer.ports.trees import Trees
from shared import logs, messages
from shared.errors import Conflict, NotFound, OutcomeUnknown, ServiceError, Unavailable
from shared.snapshots import CompareAsk, KeeperAnswer, LabelAsk, PinAsk, TreeAsk
from shared.workspace import WorkspaceHead

log = logs.get(__name__)

TRIES = 5
"""Writes of one head, each after another reading."""
AT_ONCE = 4
"""Looks into snapshots that one node takes at once."""
WAITING_MAX = 64
LOOK_S = 20.0

T = TypeVar("T")
Change = Callable[[WorkspaceHead | None], WorkspaceHead]


class Keeper:
    """One checkpointer's part of it: all of them share the work by a queue group, and are safe together by the writes."""

    def __init__(self, heads: HeadStore, trees: Trees) -> None:
        """Change `heads`, look into `trees`."""
        self._heads = heads
        self._trees = trees
        self._looking = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._ops: dict[str, Callable[[bytes], Awaitable[KeeperAnswer]]] = {
            "pin": self._pin,
            "name": self._name,
            "diff": self._differ,
            "tree": self._archive,
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
        await self._change(
            (ask.tenant, ask.session), lambda head: pinned(head, ask.snapshot, ask.fork)
        )
        first = of_fork((ask.tenant, ask.fork_pool, ask.fork), ask.session, ask.snapshot)
        await self._change((ask.tenant, ask.fork), lambda head: head or first)
        return KeeperAnswer()

    async def _name(self, body: bytes) -> KeeperAnswer:
        ask = messages.decode(body, LabelAsk)
        await self._change(
            (ask.tenant, ask.session), lambda head: labelled(head, ask.snapshot, ask.name)
        )
        return KeeperAnswer()

    async def _differ(self, body: bytes) -> KeeperAnswer:
        ask = messages.decode(body, CompareAsk)
        changes, more = await self._look(
            lambda: self._trees.differ(ask.before, ask.after, ask.skip, ask.limit)
        )
        return KeeperAnswer(changes=changes, more=more)

    async def _archive(self, body: bytes) -> KeeperAnswer:
        ask = messages.decode(body, TreeAsk)
        made = await self._look(lambda: self._trees.archive(ask.tenant, ask.snapshot, ask.path))
        return KeeperAnswer(object=made)

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

    async def _change(self, whose: tuple[str, str], change: Change) -> None:
        """Change a head; what it is already needs no write.

        Raises:
            ServiceError: as `change`; or it could not be written.
        """
        for _ in range(TRIES):
            head, seq = await self._heads.read(*whose)
            wanted = change(head)
            if wanted == head:
                return
            try:
                await self._heads.write(wanted, seq)
            except (
                Conflict,
                OutcomeUnknown,
            ) as exc:  # somebody else wrote, or it may be written: look
                log.info("head.unsure", session_id=whose[1], error=str(exc))
            else:
                return
        raise Unavailable(f"session {whose[1]}: its workspace head changes too often")
