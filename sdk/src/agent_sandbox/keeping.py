"""Snapshots of a session's workspace: given up with the pod, woken with, gone back to, forked, named, compared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Self, Unpack

from agent_sandbox.orders import TaskOptions, common_fields, make_task_id
from agent_sandbox.results import Result
from agent_sandbox.running import finish
from shared import limits
from shared.errors import NotFound
from shared.snapshots import (
    DiffAnswer,
    DiffAsk,
    DiffRow,
    ForkAnswer,
    ForkAsk,
    NameAsk,
    SnapshotAnswer,
    SnapshotRow,
    SnapshotsAnswer,
    SnapshotsAsk,
    check_name,
    check_wanted,
)
from shared.task import Hibernate, Resume, Rollback, Task
from shared.views import SessionAnswer, ShowAsk, TasksAnswer, TasksAsk

if TYPE_CHECKING:
    from agent_sandbox.client import Client

PAGE = limits.ASK_ITEMS_MAX
LET_GO_LOOKS = 50
LET_GO_PAUSE_S = 0.1


class KeptSession:
    """What a session offers of its snapshots."""

    _client: Client
    id: str

    if TYPE_CHECKING:

        def __init__(self, client: Client, session_id: str) -> None:
            """Be made by `Session`."""

    async def hibernate(
        self, *, wait_s: float | None = None, **options: Unpack[TaskOptions]
    ) -> Result | None:
        """Save the workspace and give the session's pod back, behind the tasks that it still has.

        The next task wakes it, with its files; what runs in the background ends, and the interpreter's variables are gone.

        Args:
            wait_s: longest wait once it is accepted, seconds; None: by its deadline.
            options: see `TaskOptions`.

        Returns:
            Its result; None where the session has no pod and nothing to do: it hibernates already.

        Raises:
            TaskFailed: it could not be saved; it keeps its pod.
            NotFound: there is no such session.
            NoResultYet: not done within the wait; it will be, behind what it still has to do.
        """
        if await self._sleeps():
            return None
        result = await self._change(Hibernate(**common_fields(options)), options, wait_s)
        await self._let_go(result)
        return result

    async def resume(
        self, *, wait_s: float | None = None, **options: Unpack[TaskOptions]
    ) -> Result:
        """Wake the session: when this returns, a worker has it, with its files. Any other task wakes it, too.

        Args:
            wait_s: longest wait once it is accepted, seconds; None: by its deadline.
            options: see `TaskOptions`.

        Raises:
            TaskFailed: it could not be restored.
            NoResultYet: not done within the wait; it goes on.
        """
        return await self._change(Resume(**common_fields(options)), options, wait_s)

    async def rollback(
        self, snapshot: str, *, wait_s: float | None = None, **options: Unpack[TaskOptions]
    ) -> Result:
        """Go back to a snapshot, behind the tasks that the session still has.

        What the workspace holds then goes, unless a snapshot has it; the session's pod is given back, and its next task
        begins with the files of that snapshot.

        Args:
            snapshot: its name, its id, or the beginning of its id.
            wait_s: longest wait once it is accepted, seconds; None: by its deadline.
            options: see `TaskOptions`.

        Raises:
            InvalidMessage: neither a name nor the beginning of an id.
            TaskFailed: there is no such snapshot (any more); nothing was changed.
            NoResultYet: not done within the wait; it goes on.
        """
        task = Rollback(snapshot=check_wanted(snapshot), **common_fields(options))
        return await self._change(task, options, wait_s)

    async def fork(self, snapshot: str | None = None, *, session_id: str | None = None) -> Self:
        """Make a session that begins with a snapshot of this one, however large it is, and return it.

        It has no pod until its first task. Both go on apart from each other.

        Args:
            snapshot: its name, its id, or the beginning of its id; None: what the last completed task left behind.
            session_id: id of the new session, a UUID or ULID; made where absent. The same id is the same session.

        Raises:
            InvalidMessage: neither a name nor the beginning of an id.
            NotFound: no such session, or it has no such snapshot (any more).
            LimitExceeded: too many sessions, or forks of this one (named).
            OutcomeUnknown: ask again with the same `session_id`.
        """
        if snapshot is not None:
            check_wanted(snapshot)
        ask = ForkAsk(session=self.id, fork=session_id or make_task_id(), snapshot=snapshot)
        made = await self._client.ask("fork", ask, ForkAnswer)
        return type(self)(self._client, made.session)

    async def snapshots(self) -> tuple[SnapshotRow, ...]:
        """Return the snapshots that the session keeps, the newest first.

        Raises:
            NotFound: there is no such session.
            ServiceError: others as `Client.ask`.
        """
        ask = SnapshotsAsk(session=self.id)
        return (await self._client.ask("snapshots", ask, SnapshotsAnswer)).snapshots

    async def name_snapshot(self, snapshot: str, name: str) -> SnapshotRow:
        """Keep a snapshot by a name, until the name is taken away: by an empty one.

        Args:
            snapshot: its name, its id, or the beginning of its id.
            name: letters, digits, `.`, `_` and `-`; empty: none.

        Raises:
            InvalidMessage: neither a name nor the beginning of an id.
            NotFound: there is no such snapshot (any more).
            Rejected: another snapshot of the session has that name.
            LimitExceeded: too many have one (named).
        """
        ask = NameAsk(session=self.id, snapshot=check_wanted(snapshot), name=check_name(name))
        named = (await self._client.ask("snapshot_name", ask, SnapshotAnswer)).snapshot
        assert named is not None, "else it is not found"
        return named

    async def diff(self, before: str, after: str | None = None) -> AsyncGenerator[DiffRow, None]:
        """Yield how two snapshots differ, path by path.

        Args:
            before: the older one: its name, its id, or the beginning of its id.
            after: the newer one; None: what the last completed task left behind.

        Raises:
            InvalidMessage: neither a name nor the beginning of an id.
            NotFound: there is no such snapshot (any more).
            ServiceError: others as `Client.ask`.
        """
        for wanted in (before, after):
            if wanted is not None:
                check_wanted(wanted)
        skip: int | None = 0
        while skip is not None:
            ask = DiffAsk(session=self.id, before=before, after=after, limit=PAGE, skip=skip)
            page = await self._client.ask("diff", ask, DiffAnswer)
            before, after = page.before, page.after  # by id: names and `newest` may move
            for change in page.changes:
                yield change
            skip = page.next

    async def _change(self, task: Task, options: Any, wait_s: float | None) -> Result:
        running = await self._client.publish_next(self.id, task, options)
        return (await finish(running, cancel_with_caller=False, wait_s=wait_s)).check()

    async def _let_go(self, result: Result) -> None:
        """Wait until the pod is given back: a moment after the result is stored, unless another task follows."""
        for _ in range(LET_GO_LOOKS):
            record = (await self._show()).record
            if record is None or (record.state, record.epoch) != ("running", result.raw.epoch):
                return
            await asyncio.sleep(LET_GO_PAUSE_S)

    async def _show(self) -> SessionAnswer:
        return await self._client.ask("session", ShowAsk(session=self.id), SessionAnswer)

    async def _sleeps(self) -> bool:
        """Return whether the session has no pod, and nothing for which it would get one."""
        shown = await self._show()
        if shown.record is None:
            raise NotFound(f"no session {self.id} (its first task may still be waiting)")
        if shown.record.state != "idle":
            return False
        ask = TasksAsk(session=self.id, state="waiting", limit=1)
        return not (await self._client.ask("tasks", ask, TasksAnswer)).tasks
