"""The answer's worker: takes a task when it is free. No allocator, no lock. Usage: NAME QUEUE-URL

Whose a session is stands in its record, with a number that only grows: the epoch. To claim is to write the record if it is
still as it was read, with the next epoch. And whatever the worker writes at the end, it writes in one batch that is stored
only if the record is still its own: the *write* is fenced, not the moment before it.
"""

from __future__ import annotations

import asyncio
import sys

import msgspec
import store

from shared import logs
from shared.bus import Bus, Delivery, Write
from shared.errors import Conflict, ServiceError

PULL_S = 0.5
AGAIN_S = 0.3


async def claim(bus: Bus, task: store.Task, worker: str) -> tuple[store.Record, int] | None:
    """Make the session this worker's; return its record and sequence, None: the task is done already.

    Raises:
        Conflict: another was faster.
    """
    if await bus.read_last(store.TRUTH, task.done) is not None:
        return None
    subject = f"rec.{task.session}"
    found = await bus.read_last(store.TRUTH, subject)
    before = (
        msgspec.json.decode(found.data, type=store.Record) if found else store.Record("", 0, "idle")
    )
    mine = store.Record(worker, before.epoch + 1, "running", before.tasks_done)
    expected = found.seq if found else 0
    return mine, await bus.compare_and_set(subject, store.encode(mine), expected_seq=expected)


async def work(bus: Bus, delivery: Delivery, worker: str) -> None:
    """Do one task."""
    task = msgspec.json.decode(delivery.data, type=store.Task)
    claimed = await claim(bus, task, worker)
    if claimed is None:
        await delivery.ack()
        return
    mine, seq = claimed
    found = await bus.read_last(store.TRUTH, f"ws.{task.session}")
    await store.tell_effect(bus, task, worker, mine.epoch)
    journal = await store.user_code("" if found is None else found.data.decode(), task)
    done = store.Done(task.task, worker, store.seen(journal), mine.epoch)
    idle = store.Record(worker, mine.epoch, "idle", mine.tasks_done + 1)
    await bus.batch(
        [
            Write(f"ws.{task.session}", journal.encode(), found.seq if found else 0),
            Write(task.done, store.encode(done), 0),
            Write(f"rec.{task.session}", store.encode(idle), seq),
        ]
    )
    await delivery.ack()


async def main(name: str, queue_url: str) -> None:
    """Run until killed."""
    bus = await store.connect(queue_url, name)
    await store.tell_ready(bus, name)
    async with bus.watch_contact():
        while True:
            delivery = None
            try:
                delivery = await bus.pull(store.TASKS, "workers", expires_s=PULL_S)
                if delivery is not None:
                    await work(bus, delivery, name)
            except Conflict:
                pass  # the session has another owner by now: what was done here never happened
            except ServiceError:  # no answer: whether it is stored, the next who reads will see
                await asyncio.sleep(AGAIN_S)


if __name__ == "__main__":
    logs.configure(service="lab", level="critical")
    asyncio.run(main(*sys.argv[1:]))
