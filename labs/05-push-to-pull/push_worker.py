"""The wall's worker: does what is pushed to it. Usage: NAME QUEUE-URL"""

from __future__ import annotations

import asyncio
import sys

import msgspec
import store

from shared import logs
from shared.bus import Message


async def main(name: str, queue_url: str) -> None:
    """Run until killed."""
    bus = await store.connect(queue_url, name)
    written = 0

    async def work(message: Message) -> None:
        nonlocal written
        task = msgspec.json.decode(message.data, type=store.Task)
        found = await bus.read_last(store.TRUTH, f"ws.{task.session}")
        await store.tell_effect(bus, task, name)
        journal = await store.user_code("" if found is None else found.data.decode(), task)
        written += 1
        mark = f"{name}-{written}"
        await bus.publish_acked(f"ws.{task.session}", journal.encode(), message_id=mark)
        done = store.Done(task.task, name, store.seen(journal))
        await bus.publish(message.reply, store.encode(done))

    await bus.subscribe(f"push.{name}", work)
    await store.tell_ready(bus, name)
    async with bus.watch_contact():
        await asyncio.Event().wait()


if __name__ == "__main__":
    logs.configure(service="lab", level="critical")
    asyncio.run(main(*sys.argv[1:]))
