"""Answers pool-managers, who want folders for new pods, and workers, who want their sessions' files there."""

from __future__ import annotations

import time

from shared import logs, messages
from shared.errors import InvalidMessage, ServiceError, Unavailable
from shared.metrics import Book, declared
from shared.volumes import TakeAsk, VolumeAnswer
from volume_keeper.core.asks import check_owner
from volume_keeper.core.places import Taking, session_name
from volume_keeper.loops.threads import Threads
from volume_keeper.ports import Folders, Records

log = logs.get(__name__)

ANSWER_S = 3.5
"""Longest time for one request's part on the storage; what takes longer is asked anew."""
AT_ONCE_MAX = 64
OPS = ("make", "take")


class Desk:
    """One keeper's part of it: all of a pool share the work by a queue group, and are safe together by the renames."""

    def __init__(
        self, folders: Folders, records: Records, threads: Threads, pool: str, book: Book
    ) -> None:
        """Move folders, after a look at records.

        Args:
            folders: the volume.
            records: the sessions'.
            threads: calls the volume.
            pool: whose it is.
            book: where requests are counted.
        """
        self._folders = folders
        self._records = records
        self._threads = threads
        self._pool = pool
        self._book = book
        self._under_way = 0

    async def answer(self, op: str, pod: str, body: bytes) -> VolumeAnswer:
        """Do what is asked; what went wrong is in the answer.

        Args:
            op: what.
            pod: for which pod, by the subject.
            body: the rest.
        """
        began, kind = time.monotonic(), op if op in OPS else "other"
        try:
            if self._under_way >= AT_ONCE_MAX:
                raise Unavailable(f"{AT_ONCE_MAX} requests are under way")
            self._under_way += 1
            try:
                await self._do(op, pod, body)
            finally:
                self._under_way -= 1
        except ServiceError as exc:
            log.warning("ask.refused", op=op, pod=pod, code=exc.code, error=str(exc))
            self._book.add(declared.VOLUME_REQUESTS, self._pool, kind, exc.code)
            return VolumeAnswer(error=exc.info())
        self._book.add(declared.VOLUME_REQUESTS, self._pool, kind, "done")
        took_s = time.monotonic() - began
        self._book.observe(declared.VOLUME_DURATION, self._pool, kind, seconds=took_s)
        return VolumeAnswer()

    async def _do(self, op: str, pod: str, body: bytes) -> None:
        match op:
            case "make":
                await self._threads.run(lambda: self._folders.make(pod), ANSWER_S)
            case "take":
                ask = messages.decode(body, TakeAsk)
                name, taking = session_name(ask.tenant, ask.session), Taking(ask.epoch, pod)
                check_owner(ask, pod, await self._records.read(ask.tenant, ask.session))
                new = await self._threads.run(lambda: self._folders.take(name, taking), ANSWER_S)
                log.info("files.taken", session_id=ask.session, pod=pod, epoch=ask.epoch, new=new)
            case _:
                raise InvalidMessage(f"nothing to ask under {op[:40]!r}: {', '.join(OPS)}")
