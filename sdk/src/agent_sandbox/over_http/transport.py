"""A client's way to the system through gateways: any of them, all the same."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from typing import Self, TypeVar

import msgspec

from agent_sandbox.access import Access
from agent_sandbox.keys import SAY_S, Words
from agent_sandbox.orders import Order, make_task_id
from agent_sandbox.over_http.calls import Call, Calls
from agent_sandbox.over_http.chunks import HttpChunks
from agent_sandbox.over_http.paths import (
    publish_call,
    question_call,
    task_path,
    terminal_call,
)
from agent_sandbox.over_http.watch import HttpWatch
from agent_sandbox.transport import NEW, Ear, View
from shared import messages
from shared.errors import NotFound, ServiceError
from shared.files import ObjectRef
from shared.messages import CancelAnswer, TaskResult
from shared.objects import read_chunks, write_chunks
from shared.terminals import TerminalAnswer

ASK_S = 10.0
DROP_S = 5.0
T = TypeVar("T")


class HttpTransport:
    """Connections to gateways, for the tenant of one token (see `Transport`)."""

    def __init__(self, calls: Calls) -> None:
        """Use connections."""
        self._calls = calls
        self._chunks = HttpChunks(calls)

    @classmethod
    async def connect(cls, access: Access, *, deadline_s: float) -> Self:
        """Ask a gateway who we are to it.

        Raises:
            Forbidden: the gateways refuse the token.
            Unavailable: none could be reached.
        """
        calls = Calls(access)
        try:
            await calls.ask(Call(method="GET", path="/v1/pools"), within_s=deadline_s)
        except BaseException:
            await calls.close()
            raise
        return cls(calls)

    async def close(self) -> None:
        """Close all connections; tasks go on."""
        await self._calls.close()

    def draw_id(self) -> str:
        """Return a new id. Which homes have a leader only the gateways know; they wait for it."""
        return make_task_id()

    def watch(self, order: Order, ear: Ear, view: View = NEW) -> HttpWatch:
        """Return a watch over a task, which hears nothing yet."""
        return HttpWatch(self._calls, order, ear, view)

    async def publish(self, order: Order, until: float) -> None:
        """Publish a task, every try under its id; see `Transport`."""
        await self._calls.ask(publish_call(order), within_s=until - time.monotonic())

    async def read_result(self, session: str, task: str, *, timeout_s: float) -> TaskResult | None:
        """Return the stored result of a task; None: there is none.

        Raises:
            Unavailable: no gateway can be asked now.
            OutcomeUnknown: no answer in time.
        """
        call = Call(method="GET", path=f"{task_path(session, task)}/result")
        try:
            answer = await self._calls.ask(call, within_s=timeout_s)
        except NotFound:
            return None
        return messages.decode(answer.content, TaskResult) if answer.status_code == 200 else None

    async def cancel(self, order: Order, *, wait_s: float) -> CancelAnswer:
        """Ask for a task's end; see `Transport`."""
        call = Call(
            method="POST",
            path=f"{task_path(order.session, order.task)}/cancel",
            params={} if order.pool is None else {"pool": order.pool},
            changes=True,
            try_s=wait_s,
        )
        answer = await self._calls.ask(call, within_s=wait_s)
        return messages.decode(answer.content, CancelAnswer)

    async def tell_terminal(self, words: Words) -> TerminalAnswer:
        """Say something to the terminal of a task that runs; see `Transport`."""
        answer = await self._calls.ask(terminal_call(words), within_s=SAY_S)
        return messages.decode(answer.content, TerminalAnswer)

    async def ask(self, what: str, question: msgspec.Struct, kind: type[T]) -> T:
        """Ask a gateway; see `paths`."""
        answer = await self._calls.ask(question_call(what, question), within_s=ASK_S)
        return messages.decode(answer.content, kind)

    async def write_object(
        self, pieces: AsyncIterator[bytes], on_stored: Callable[[int], None]
    ) -> ObjectRef:
        """Store content chunk by chunk; see `shared.objects`."""
        return await write_chunks(self._chunks, pieces, on_stored=on_stored)

    def read_object(self, reference: ObjectRef) -> AsyncGenerator[bytes, None]:
        """Yield an object's content chunk by chunk; see `shared.objects`."""
        return read_chunks(self._chunks, reference)

    async def drop_objects(self, ids: tuple[str, ...]) -> None:
        """Remove objects; what could not be removed now goes by its age."""
        for object_id in ids:
            call = Call(method="DELETE", path=f"/v1/objects/{object_id}")
            with suppress(ServiceError):
                await self._calls.ask(call, within_s=DROP_S)
