"""A client's way to the system through gateways: any of them, all the same."""

from __future__ import annotations

from contextlib import suppress
from typing import Self, TypeVar

import msgspec

from agent_sandbox.access import Access
from agent_sandbox.keys import SAY_S, Words
from agent_sandbox.orders import Order, make_task_id
from agent_sandbox.over_http.calls import Call, Calls
from agent_sandbox.over_http.chunks import HttpChunks
from agent_sandbox.over_http.paths import (
    cancel_call,
    question_call,
    task_path,
    terminal_call,
)
from agent_sandbox.over_http.watch import HttpWatch
from agent_sandbox.transport import NEW, Ear, View
from shared import messages
from shared.errors import NotFound, OutcomeUnknown, ServiceError, Unavailable
from shared.messages import CancelAnswer, TaskResult
from shared.terminals import TerminalAnswer

ASK_S = 10.0
DROP_S = 5.0
NOTHING = ("session", "dead_letter", "dead_letter_drop")
"""Questions whose answer says that there is no such thing, as pool-managers do; gateways answer 404."""
T = TypeVar("T")


class HttpTransport:
    """Connections to gateways, for the tenant of one token (see `Transport`)."""

    def __init__(self, calls: Calls) -> None:
        """Use connections."""
        self._calls = calls
        self.chunks = HttpChunks(calls)

    @classmethod
    async def connect(cls, access: Access, *, deadline_s: float) -> Self:
        """Ask a gateway who we are to it.

        Raises:
            Forbidden: the gateways refuse the token.
            Unavailable: none could be reached.
        """
        calls = Calls(access)
        try:
            await calls.ask(Call(method="GET", path="/v1/tti"), within_s=deadline_s)
        except NotFound:  # an older gateway: it has looked at the token
            pass
        except (Unavailable, OutcomeUnknown) as exc:  # of a reading alone: nothing happened
            await calls.close()
            raise Unavailable(
                f"no gateway could be asked within {deadline_s:.1f} s ({', '.join(access.servers)}): {exc}"
            ) from exc
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
        try:
            answer = await self._calls.ask(cancel_call(order), within_s=wait_s)
        except NotFound:
            return CancelAnswer(outcome="unknown")
        return messages.decode(answer.content, CancelAnswer)

    async def tell_terminal(self, words: Words) -> TerminalAnswer:
        """Say something to the terminal of a task that runs; see `Transport`."""
        answer = await self._calls.ask(terminal_call(words), within_s=SAY_S)
        return messages.decode(answer.content, TerminalAnswer)

    async def ask(self, what: str, question: msgspec.Struct, kind: type[T]) -> T:
        """Ask a gateway; see `paths`."""
        call = question_call(what, question)
        try:
            answer = await self._calls.ask(call, within_s=max(ASK_S, call.try_s))
        except NotFound:
            if what not in NOTHING:
                raise
            return msgspec.convert({}, kind)
        if call.answers == "nothing":  # of a removal: it was there
            return msgspec.convert({"dropped": True}, kind)
        return messages.decode(answer.content, kind)

    async def drop_objects(self, ids: tuple[str, ...]) -> None:
        """Remove objects; what could not be removed now goes by its age."""
        for object_id in ids:
            path = f"/v1/objects/{object_id}"
            call = Call(method="DELETE", path=path, answers="nothing")
            with suppress(ServiceError):
                await self._calls.ask(call, within_s=DROP_S)
