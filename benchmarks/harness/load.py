"""Load as independent callers make it: by the clock, whatever became of the calls before."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from agent_sandbox import Client
from agent_sandbox.places import TENANT
from harness.running import CannotMeasure
from shared import subjects
from shared.bus import Bus, Message
from shared.errors import ServiceError
from shared.messages import TaskResult, decode
from shared.task import Python, encode_task

CODE = "import time\nprint(time.time_ns())"
"""The first thing that it does is to look at the clock; `time` is built in, so its import costs no file."""
HOLDING_CODE = CODE + "\ntime.sleep({seconds})"
GIVE_UP_S = 30.0
"""A task without a result after so long counts as lost, and as that slow."""


@dataclass
class Call:
    """One task as its caller sees it. Wall clocks, nanoseconds since 1970: the sandbox reads the same one."""

    task: str
    due_ns: int
    """When the schedule wanted it to be called."""
    called_ns: int = 0
    accepted_ns: int = 0
    """When the caller had the stream's word."""
    heard_ns: int = 0
    """When the caller had the result."""
    result: TaskResult | None = None
    error: str = ""

    @property
    def user_ns(self) -> int | None:
        """The user code's own first look at the clock; None: it did not come to that."""
        text = self.result.stdout.text if self.result is not None else ""
        first = text.splitlines()[0] if text else ""
        return int(first) if first.isdigit() else None

    @property
    def tti_ms(self) -> float:
        """Call to first user instruction, milliseconds; a lost task counts as the time that was waited for it."""
        user_ns = self.user_ns
        return GIVE_UP_S * 1000 if user_ns is None else (user_ns - self.called_ns) / 1e6

    @property
    def from_schedule_ms(self) -> float:
        """The same from the moment at which the call was due: with what the caller itself was late."""
        return self.tti_ms + (self.called_ns - self.due_ns) / 1e6

    def why_lost(self) -> str:
        """Return why there is no first instruction; empty where there is one."""
        if self.user_ns is not None:
            return ""
        if self.result is None:
            return self.error or "no result"
        said = self.result.error.message if self.result.error else self.result.stderr.text[-200:]
        return f"{self.result.status} {self.result.reason or ''}: {said}"


class Caller(Protocol):
    """How tasks are published and results are heard."""

    async def call(self, call: Call, pool: str, code: str) -> None:
        """Publish one `python` task and wait for its result; enters both into `call`."""


class LibraryCaller:
    """Calls as a user of the client library does."""

    def __init__(self, client: Client) -> None:
        """Call through a connected client."""
        self._client = client

    async def call(self, call: Call, pool: str, code: str) -> None:
        """Publish one task and wait for its result."""
        call.called_ns = time.time_ns()
        try:
            options = {"pool": pool, "task_id": call.task}
            running = await self._client.publish(Python(code=code, deadline_s=GIVE_UP_S), options)
            call.accepted_ns = time.time_ns()
            running.ignore_events()
            done = await running.result(wait_s=GIVE_UP_S)
        except ServiceError as exc:
            call.error = f"{exc.code}: {exc}"
        else:
            call.heard_ns = time.time_ns()
            call.result = done.raw


class BareCaller:
    """Calls as a program with nothing but a NATS connection does: one subscription for all results."""

    def __init__(self, bus: Bus) -> None:
        """Call over a connection; `listen` comes first."""
        self._bus = bus
        self._waiting: dict[str, asyncio.Future[bytes]] = {}

    async def listen(self) -> None:
        """Hear all results of the tenant."""
        await self._bus.subscribe(subjects.done(TENANT), self._hear)

    async def call(self, call: Call, pool: str, code: str) -> None:
        """Publish one task and wait for its result."""
        waiting = self._waiting[call.task] = asyncio.get_running_loop().create_future()
        call.called_ns = time.time_ns()
        body = encode_task(Python(code=code, deadline_s=GIVE_UP_S))
        try:
            async with asyncio.timeout(GIVE_UP_S):
                await self._bus.publish_acked(
                    subjects.task(TENANT, pool, "interactive"), body, message_id=call.task
                )
                call.accepted_ns = time.time_ns()
                found = await waiting
        except TimeoutError:
            call.error = f"no result within {GIVE_UP_S:g} s"
        except ServiceError as exc:
            call.error = f"{exc.code}: {exc}"
        else:
            call.heard_ns = time.time_ns()
            call.result = decode(found, TaskResult)
        finally:
            del self._waiting[call.task]

    def _hear(self, message: Message) -> None:
        waiting = self._waiting.get(message.subject.rpartition(".")[2])
        if waiting is not None and not waiting.done():
            waiting.set_result(message.data)


async def make_caller(kind: str, client: Client) -> Caller:
    """Return the caller of that kind (`library` or `bare`) over a connected client."""
    if kind == "library":
        return LibraryCaller(client)
    bare = BareCaller(client.bus)
    await bare.listen()
    return bare


async def open_loop(
    count: int, rate: float, start: Callable[[Call], Awaitable[None]]
) -> list[Call]:
    """Make calls at a fixed distance, and return when all are done.

    A call is begun when it is due, not when an earlier one is done, so slow answers neither thin the load out nor
    hide the wait of those that would have come meanwhile.

    Args:
        count: calls.
        rate: calls for each second; infinite: all at once.
        start: makes one call.
    """
    clock = asyncio.get_running_loop().time
    first, first_ns = clock(), time.time_ns()
    calls = []
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            due_s = number / rate
            calls.append(Call(task=task_id(number), due_ns=first_ns + int(due_s * 1e9)))
            wait_s = first + due_s - clock()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            group.create_task(_start(start, calls[-1]))
    return calls


async def _start(start: Callable[[Call], Awaitable[None]], call: Call) -> None:
    await start(call)


def task_id(number: int) -> str:
    """Return an id for a call, unlike any other of this machine."""
    return f"b{time.time_ns():x}-{number:05d}"


@asynccontextmanager
async def without_pauses() -> AsyncIterator[None]:
    """Keep the collector of this process from pausing what it measures."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def check_calls(calls: list[Call]) -> list[Call]:
    """Return the calls that reached user code.

    Raises:
        CannotMeasure: less than half did; says what became of the first of the others.
    """
    reached = [call for call in calls if call.user_ns is not None]
    if 2 * len(reached) < len(calls) or not calls:
        why = next(
            (call.why_lost() for call in calls if call.user_ns is None), "nothing was called"
        )
        raise CannotMeasure(
            f"{len(calls) - len(reached)} of {len(calls)} tasks reached no user code: {why}"
        )
    return reached
