"""A client's way to the system through the servers' client edges: subjects and streams."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Self, TypeVar

import msgspec

from agent_sandbox.access import Access, bus_options
from agent_sandbox.keys import SAY_S, Words
from agent_sandbox.orders import Order
from agent_sandbox.over_nats.asking import ask
from agent_sandbox.over_nats.cancelling import cancel_task
from agent_sandbox.over_nats.drawing import IdDrawer
from agent_sandbox.over_nats.watch import NatsWatch
from agent_sandbox.places import FAILPOINTS_VARIABLE
from agent_sandbox.transport import NEW, Ear, View
from shared import headers, messages, subjects
from shared.bus import Bus
from shared.errors import ServiceError
from shared.failpoints import Failpoints
from shared.messages import CancelAnswer, TaskResult
from shared.objects import BusChunks
from shared.terminals import TerminalAnswer
from shared.views import ObjectDropAsk

DROP_S = 5.0
T = TypeVar("T")


class NatsTransport:
    """One connection, for one tenant (see `Transport`)."""

    def __init__(self, bus: Bus, tenant: str) -> None:
        """Use an open connection."""
        self.bus = bus
        self._tenant = tenant
        self._ids = IdDrawer()
        self.chunks = BusChunks(bus, tenant)

    @classmethod
    async def connect(cls, access: Access, tenant: str, *, deadline_s: float) -> Self:
        """Connect.

        Raises:
            Forbidden: the servers refuse the credential.
            Unavailable: no server could be reached.
        """
        bus = await Bus.connect(bus_options(access), deadline_s=deadline_s)
        points = Failpoints(os.environ.get(FAILPOINTS_VARIABLE), "client")
        made = cls(points.at("bus", bus), tenant)
        await made._ids.listen(bus)
        return made

    async def close(self) -> None:
        """Close the connection; tasks go on."""
        await self.bus.close()

    def draw_id(self) -> str:
        """Return an id whose home has a leader, as far as the pool-managers say."""
        return self._ids.draw()

    def watch(self, order: Order, ear: Ear, view: View = NEW) -> NatsWatch:
        """Return a watch over a task, which hears nothing yet."""
        return NatsWatch(self.bus, order, ear, view)

    async def read_result(self, session: str, task: str, *, timeout_s: float) -> TaskResult | None:
        """Return the stored result of a task; None: there is none.

        Raises:
            Unavailable: not connected.
            OutcomeUnknown: no answer in time.
        """
        body = await self.bus.read_result(self._tenant, session, task, timeout_s=timeout_s)
        return None if body is None else messages.decode(body, TaskResult)

    async def cancel(self, order: Order, *, wait_s: float) -> CancelAnswer:
        """Ask for a task's end; see `cancel_task`."""
        return await cancel_task(self.bus, order, wait_s=wait_s)

    async def tell_terminal(self, words: Words) -> TerminalAnswer:
        """Ask the worker that runs the task; see `Transport`."""
        where = subjects.terminal(words.worker, self._tenant, words.session, words.task)
        fields = {headers.WRITER: words.writer, headers.OFFSET: str(words.offset)}
        if words.size is not None:
            fields[headers.SIZE] = "{} {}".format(*words.size)
        if words.hang_up:
            fields[headers.HANG_UP] = "1"
        said = await self.bus.request(where, words.data, timeout_s=SAY_S, headers=fields)
        return messages.decode(said.data, TerminalAnswer)

    async def ask(self, what: str, question: msgspec.Struct, kind: type[T]) -> T:
        """Ask the pool-managers; see `asking`."""
        return await ask(self.bus, subjects.ask(self._tenant, what), question, kind)

    async def drop_objects(self, ids: tuple[str, ...]) -> None:
        """Remove objects; what could not be removed now goes by its age."""
        if ids:
            with suppress(ServiceError):
                question = messages.encode(ObjectDropAsk(objects=ids))
                subject = subjects.ask(self._tenant, "object_drop")
                await self.bus.request(subject, question, timeout_s=DROP_S)
