"""The client: connects, publishes tasks, waits for results."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Unpack

import msgspec

from agent_sandbox.attaching import AttachOptions, attach_task
from agent_sandbox.connected import Connected
from agent_sandbox.leaving import bounded
from agent_sandbox.letters import DeadLetters
from agent_sandbox.made import Made
from agent_sandbox.objects import Objects
from agent_sandbox.orders import (
    Order,
    RunOptions,
    SessionOptions,
    check_class,
    common_fields,
    make_task_id,
    name_order,
    program_task,
)
from agent_sandbox.results import Result
from agent_sandbox.running import RESULT_GRACE_S, RunningTask, finish
from agent_sandbox.sequencer import LIVE_BYTES_MAX
from agent_sandbox.session import Session
from shared.ids import parse_name, parse_task_id
from shared.messages import CancelAnswer
from shared.task import Open, Task, encode_task

ASK_TIMEOUT_S = 5.0
READ_AGAIN_S = (0.05, 0.15, 0.0)
T = TypeVar("T")


class Client(Connected):
    """Publishes tasks and reads what became of them. One connection, any number of tasks at once.

    ```python
    async with Client() as client:
        result = await client.run(["python3", "-c", "print(6 * 7)"])
        print(result.stdout, result.tti_s)
    ```
    """

    @property
    def dead_letters(self) -> DeadLetters:
        """This tenant's dead letters: tasks that could not be read, or killed their workers."""
        return DeadLetters(self)

    @property
    def objects(self) -> Objects:
        """Content of any size by reference, such as the outputs that a result names."""
        return Objects(self.transport)

    async def run(
        self,
        argv: Sequence[str] | str | None = None,
        *,
        cancel_with_caller: bool = False,
        wait_s: float | None = None,
        **options: Unpack[RunOptions],
    ) -> Result:
        """Run a program, a shell line (`shell=`) or Python code (`code=`) in a fresh sandbox and return its result.

        A command that fails is a result, not an exception: see `Result.check`.

        Args:
            argv: the program and its arguments; a text is a shell line, as `shell=`.
            cancel_with_caller: cancel the task when the awaiting coroutine is cancelled; else it goes on.
            wait_s: longest wait for the result once the task is accepted, seconds; None: by its deadline.
            options: see `RunOptions`.

        Raises:
            InvalidMessage: the task breaks a limit (named); it was not published.
            Rejected: no such pool, lane full; it was not accepted.
            OutcomeUnknown: it may have been accepted, but no answer came.
            NoResultYet: no result within the wait (a `TimeoutError`, too); the task goes on.
        """
        task_id = options.setdefault("task_id", self.transport.draw_id())
        try:
            task = await self.start(argv, **options)
        except asyncio.CancelledError:
            if (
                cancel_with_caller
            ):  # it may have been accepted; if not, this kills a publish that comes late
                await bounded(self.cancel(task_id, pool=options.get("pool", "default")))
            raise
        return await finish(task, cancel_with_caller=cancel_with_caller, wait_s=wait_s)

    async def start(
        self, argv: Sequence[str] | str | None = None, **options: Unpack[RunOptions]
    ) -> RunningTask:
        """Publish a one-shot and return it as soon as it is accepted; for streaming and cancelling.

        Raises:
            InvalidMessage: the task breaks a limit (named); it was not published.
            Rejected: no such pool, lane full; it was not accepted.
            OutcomeUnknown: no answer; it may have been accepted.
        """
        async with self.objects.carried(options) as carried:
            return await self.publish(program_task(argv, carried), carried)

    async def publish(self, task: Task, options: Mapping[str, Any]) -> RunningTask:
        """Publish the first task of a new session, of any kind.

        Args:
            task: with `keep`, the session stays open.
            options: `pool`, `klass`, `task_id`, `live_bytes_max` and `replay_of` are read.

        Raises:
            InvalidMessage: the task breaks a limit (named); it was not published.
            Rejected: no such pool, lane full; it was not accepted.
            OutcomeUnknown: no answer; it may have been accepted.
        """
        pool = parse_name(options.get("pool", "default"), "pool")
        klass = check_class(options.get("klass", "interactive"))
        task_id = parse_task_id(options.get("task_id") or self.transport.draw_id())
        order = Order(
            tenant=self.options.tenant,
            session=task_id,
            task=task_id,
            body=encode_task(task),
            pool=pool,
            klass=klass,
            keep=task.keep,
            replay_of=options.get("replay_of"),
            letter=options.get("letter"),
            wait_s=task.deadline_s + RESULT_GRACE_S,
            live_bytes_max=options.get("live_bytes_max", LIVE_BYTES_MAX),
            made=options.get("made") or Made(),
        )
        return await self.publish_order(order)

    # --- sessions --------------------------------------------------------------------------------------------------

    async def create_session(self, **options: Unpack[SessionOptions]) -> Session:
        """Create a session that stays open, and return it when a worker has it.

        Raises:
            TaskFailed: it could not be created.
            Rejected: no such pool, lane full; it was not accepted.
            OutcomeUnknown: it may have been created.
        """
        async with self.objects.carried(options) as carried:
            running = await self.publish(Open(keep=True, **common_fields(carried)), carried)
        result = await finish(running, cancel_with_caller=False)
        return Session(self, result.check().session_id, opened=result)

    def session(self, session_id: str) -> Session:
        """Return an existing session by its id; nothing is asked yet."""
        return Session(self, parse_task_id(session_id))

    async def publish_next(
        self, session_id: str, task: Task, options: Mapping[str, Any]
    ) -> RunningTask:
        """Publish the next task of a session.

        Args:
            session_id: the session.
            task: what to do.
            options: `klass`, `task_id`, `live_bytes_max` and `replay_of` are read.

        Raises:
            InvalidMessage: the task breaks a limit (named); it was not published.
            OutcomeUnknown: no answer; it may have been accepted.
        """
        task_id = parse_task_id(options.get("task_id") or make_task_id())
        klass = options.get("klass")
        order = Order(
            tenant=self.options.tenant,
            session=session_id,
            task=task_id,
            body=encode_task(task),
            pool=None,
            klass=None if klass is None else check_class(klass),
            replay_of=options.get("replay_of"),
            letter=options.get("letter"),
            wait_s=task.deadline_s + RESULT_GRACE_S,
            live_bytes_max=options.get("live_bytes_max", LIVE_BYTES_MAX),
            made=options.get("made") or Made(),
        )
        return await self.publish_order(order)

    async def read_result(self, task_id: str, *, session_id: str | None = None) -> Result | None:
        """Return the stored result of a task, or None while there is none.

        Args:
            task_id: the task.
            session_id: its session; None: it is its session's first task (a one-shot, say).
        """
        names = (parse_task_id(session_id or task_id), parse_task_id(task_id))
        for pause_s in READ_AGAIN_S:  # any server answers, and one may be a moment behind
            stored = await self.transport.read_result(*names, timeout_s=ASK_TIMEOUT_S)
            if stored is not None:
                return Result(raw=stored)
            await asyncio.sleep(pause_s)
        return None

    async def attach(self, task_id: str, **options: Unpack[AttachOptions]) -> RunningTask:
        """Listen to a task that was published before, by whomever: its events from the first on, or from a position.

        Raises:
            InvalidMessage: `after` is no position, or none in this task's events.
            NotFound: there is no such task (any more), as far as that can be told.
            Unavailable: no server answered.
        """
        running = await attach_task(self.transport, self.options.tenant, task_id, options)
        self._watched.add(running)
        return running

    async def cancel(
        self, task_id: str, *, session_id: str | None = None, pool: str | None = None
    ) -> CancelAnswer:
        """Cancel a task at whatever stage it is.

        Args:
            task_id: the task.
            session_id: its session; None: it is its session's first task.
            pool: only needed to cancel a task that is not published yet.

        Raises:
            OutcomeUnknown: nobody answered in time.
            Forbidden: another tenant's.
        """
        order = name_order(self.options.tenant, task_id, session_id, pool=pool)
        return await self.transport.cancel(order, wait_s=ASK_TIMEOUT_S * 3)

    async def ask(self, what: str, question: msgspec.Struct, kind: type[T]) -> T:
        """Ask the pool-managers about this tenant's sessions or the pools.

        Args:
            what: `sessions`, `session`, `pools`, `dead_letters`, ….
            question: body of the request.
            kind: type of the answer.

        Raises:
            Unavailable: no pool-manager is there.
            ServiceError: it refuses, with its code.
            OutcomeUnknown: no answer in time; nothing was changed.
        """
        return await self.transport.ask(what, question, kind)
