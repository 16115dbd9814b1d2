"""Whole directories of a workspace: into it from this machine, and out of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Unpack

from agent_sandbox.archives import measure, pack
from agent_sandbox.halves import Halves
from agent_sandbox.keeping import KeptSession
from agent_sandbox.made import Made
from agent_sandbox.objects import OnProgress, Writable
from agent_sandbox.orders import TaskOptions, common_fields
from agent_sandbox.results import Result
from agent_sandbox.unpacking import Unpacked, unpack
from shared.errors import ServiceError
from shared.files import ObjectRef
from shared.task import Archive, Close, Extract

if TYPE_CHECKING:
    from agent_sandbox.client import Client

TreeSource = Path | BinaryIO | AsyncIterator[bytes]
"""A folder of this machine, or what yields a tar archive: an open binary file, or pieces."""


class TreeSession(KeptSession):
    """What a session offers of whole directories."""

    _client: Client
    id: str

    async def upload_tree(
        self,
        source: TreeSource,
        path: str = ".",
        *,
        on_progress: OnProgress | None = None,
        **options: Unpack[TaskOptions],
    ) -> Result:
        """Copy a folder's content into a directory of the workspace, which is made, at the memory of a few chunks.

        What has the same names is replaced, the rest stays. Symbolic links are copied as links.

        Args:
            source: a folder of this machine, or what yields a tar archive (not compressed).
            path: the directory; the workspace itself where absent.
            on_progress: called with bytes done and in all; a byte counts half when the object store has it.
            options: see `TaskOptions`.

        Raises:
            TaskFailed: a member could not be written (named); those before it are there.
            InvalidMessage: something in the folder can't be read.
            LimitExceeded: more entries or bytes than an archive may have (named).
            ServiceError: it could not be stored; see `Objects.put`.
        """
        halves = Halves(on_progress)
        reference = await self._put(source, halves)
        made = Made(reference.id)
        asked = {**options, "made": made}
        task = Extract(path=path, object=reference, **common_fields(asked))
        async with self._client.objects.given_back(made):
            running = await self._client.publish_next(self.id, task, asked)
        return await halves.input(running, reference)

    async def download_tree(
        self,
        path: str,
        to: Path | Writable,
        *,
        snapshot: str | None = None,
        on_progress: OnProgress | None = None,
        **options: Unpack[TaskOptions],
    ) -> Unpacked | None:
        """Copy a directory of the workspace, or a file, into a new folder of this machine, at the memory of a few chunks.

        The folder gets all of it or nothing. A link that leads out of it is left out, and said.

        Args:
            path: which; `.` is the whole workspace.
            to: a folder of this machine that is not there yet or is empty, or an open binary file, which gets a tar archive.
            snapshot: as it was then, by the snapshot's name, its id, or the beginning of its id; None: as it is now. The
                session goes on meanwhile: it is a fork that is read, and closed afterwards.
            on_progress: called with bytes done and in all; a byte counts half when the object store has it.
            options: see `TaskOptions`.

        Returns:
            What was written; None where it went into a file.

        Raises:
            TaskFailed: it could not be read, or is too large (named).
            InvalidMessage: the folder holds something, or can't be written.
            NotFound: there is no such snapshot (any more).
            ServiceError: it could not be fetched; see `Objects.get`.
        """
        if snapshot is not None:
            fork = await self.fork(snapshot)
            try:
                return await fork.download_tree(path, to, on_progress=on_progress, **options)
            finally:
                with suppress(
                    ServiceError
                ):  # it is a session like others then: idle, and in every listing
                    await asyncio.shield(self._client.publish_next(fork.id, Close(), {}))
        halves = Halves(on_progress)
        task = Archive(path=path, **common_fields(options))
        running = await self._client.publish_next(self.id, task, options)
        async with halves.output(running, self._client.objects) as (_, reference):
            return await self._fetch(reference, to, halves)

    async def _put(self, source: TreeSource, halves: Halves) -> ObjectRef:
        objects = self._client.objects
        if not isinstance(source, Path):
            return await objects.put(source, on_progress=halves.first)
        size = await asyncio.to_thread(measure, source)

        def stored(done_bytes: int, _total: int | None) -> None:
            halves.first(min(done_bytes, size), size)

        async with aclosing(pack(source)) as pieces:
            return await objects.put(pieces, on_progress=stored)

    async def _fetch(
        self, reference: ObjectRef, to: Path | Writable, halves: Halves
    ) -> Unpacked | None:
        objects = self._client.objects
        if not isinstance(to, Path):
            await objects.get(reference, to, on_progress=halves.second)
            return None
        async with aclosing(objects.read(reference)) as pieces:

            async def told() -> AsyncIterator[bytes]:
                done_bytes = 0
                async for piece in pieces:
                    yield piece
                    done_bytes += len(piece)
                    halves.second(done_bytes, reference.size_bytes)

            return await unpack(told(), to)
