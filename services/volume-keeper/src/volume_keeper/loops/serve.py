"""Answers pool-managers, who want folders for new pods, and workers, who want their sessions' files there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from shared import logs, messages
from shared.errors import InvalidMessage, ServiceError, Unavailable
from shared.volumes import TakeAsk, VolumeAnswer
from volume_keeper.core.asks import check_owner
from volume_keeper.core.places import Taking, session_name
from volume_keeper.ports import Folders, Records

log = logs.get(__name__)

ANSWER_S = 4.0
"""Longest time for one request; storage that takes longer is asked anew."""
AT_ONCE_MAX = 64

T = TypeVar("T")


class Desk:
    """One keeper's part of it: all of a pool share the work by a queue group, and are safe together by the renames."""

    def __init__(self, folders: Folders, records: Records) -> None:
        """Move `folders`, after a look at `records`."""
        self._folders = folders
        self._records = records
        self._under_way = 0

    async def answer(self, op: str, pod: str, body: bytes) -> VolumeAnswer:
        """Do what is asked; what went wrong is in the answer.

        Args:
            op: what.
            pod: for which pod, by the subject.
            body: the rest.
        """
        try:
            if self._under_way >= AT_ONCE_MAX:
                raise Unavailable(f"{AT_ONCE_MAX} requests are under way")
            self._under_way += 1
            try:
                async with asyncio.timeout(ANSWER_S):
                    await self._do(op, pod, body)
            except TimeoutError as exc:
                raise Unavailable(f"the volume does not answer within {ANSWER_S:g} s") from exc
            finally:
                self._under_way -= 1
        except ServiceError as exc:
            log.warning("ask.refused", op=op, pod=pod, code=exc.code, error=str(exc))
            return VolumeAnswer(error=exc.info())
        return VolumeAnswer()

    async def _do(self, op: str, pod: str, body: bytes) -> None:
        match op:
            case "make":
                await in_thread(lambda: self._folders.make(pod))
            case "take":
                ask = messages.decode(body, TakeAsk)
                name, taking = session_name(ask.tenant, ask.session), Taking(ask.epoch, pod)
                check_owner(ask, pod, await self._records.read(ask.tenant, ask.session))
                new = await in_thread(lambda: self._folders.take(name, taking))
                log.info("files.taken", session_id=ask.session, pod=pod, epoch=ask.epoch, new=new)
            case _:
                raise InvalidMessage(f"nothing to ask under {op[:40]!r}: make, take")


async def in_thread(act: Callable[[], T]) -> T:
    """Do what may take as long as a storage does."""
    return await asyncio.to_thread(act)
