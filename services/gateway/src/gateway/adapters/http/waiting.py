"""Waiting for the result of a task that somebody published: heard when it is stored, read once a second in between."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from agent_sandbox import Client
from agent_sandbox.events import Event
from agent_sandbox.orders import Order
from shared.errors import OutcomeUnknown, Unavailable
from shared.messages import TaskResult

READ_S = 2.0
READ_EVERY_S = 1.0


class _Ear:
    """Hears one task's result and nothing else."""

    def __init__(self) -> None:
        self.stored: asyncio.Future[TaskResult] = asyncio.get_running_loop().create_future()

    def hear(self, _event: Event) -> bool:
        return True

    def settle(self, stored: TaskResult) -> None:
        if not self.stored.done():
            self.stored.set_result(stored)


async def wait_result(client: Client, session: str, task: str, wait_s: float) -> TaskResult | None:
    """Return a task's result, or None where there is none within `wait_s` seconds.

    Raises:
        Unavailable: not connected now.
        OutcomeUnknown: no answer; nothing was changed.
    """
    stored = await client.transport.read_result(session, task, timeout_s=READ_S)
    if stored is not None or not wait_s:
        return stored
    tenant = client.options.tenant
    order = Order(tenant=tenant, session=session, task=task, body=b"", pool=None, wait_s=wait_s)
    ear = _Ear()
    watch = client.transport.watch(order, ear)
    try:
        async with asyncio.timeout(wait_s):
            await watch.listen()
            while not ear.stored.done():
                with suppress(Unavailable, OutcomeUnknown):  # no answer now: the next second
                    if (found := await watch.read()) is not None:
                        return found
                await asyncio.wait({ear.stored}, timeout=READ_EVERY_S)
            return ear.stored.result()
    except TimeoutError:
        return None
    finally:
        await watch.close()
