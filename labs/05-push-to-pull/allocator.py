"""The wall's allocator: finds tasks that nobody has done, locks their session, pushes them to a free worker.

Two of these run; the one that holds the lease is the leader. Usage: NAME QUEUE-URL LOCK-URL LOCK-URL LOCK-URL
"""

from __future__ import annotations

import asyncio
import sys

import msgspec
import store
from lease import Lease, Redlock

from shared import logs
from shared.bus import Bus
from shared.errors import ServiceError

LEASE_S, LOCK_S = 1.5, 1.0
PUSH_S = 2.0
"""A worker that has not answered for so long is taken for dead."""
SUSPECT_S = 3.0
LOOK_EVERY_S = 0.05
WORKERS = ("w1", "w2", "w3")


class Allocator:
    """One of the two."""

    def __init__(self, name: str, queue: Bus, locks: list[Bus]) -> None:
        """Know where the queue is, and the locks."""
        self._name, self._queue, self._locks = name, queue, locks
        self._lease = Lease(queue, "leader", LEASE_S)
        self._free = set(WORKERS)
        self._busy: set[str] = set()
        """Sessions of which a task is under way."""
        self._todo: dict[str, store.Task] = {}
        self._read = {store.TASKS: 0, store.TRUTH: 0}
        self._assigning: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Lead while the lease is ours."""
        renewing = asyncio.create_task(self._renew())
        while not renewing.done():
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self._look()
            except ServiceError:
                continue
            for task in list(self._todo.values()):
                if self._lease.is_held and self._free and task.session not in self._busy:
                    self._busy.add(task.session)
                    worker = self._free.pop()
                    assigning = asyncio.create_task(self._assign(task, worker))
                    self._assigning.add(assigning)
                    assigning.add_done_callback(self._assigning.discard)

    async def _renew(self) -> None:
        while True:
            if not await self._lease.renew(self._name):
                await self._lease.take(self._name)
            await asyncio.sleep(LEASE_S / 3)

    async def _look(self) -> None:
        """Read what is new: tasks, and results, whoever got them."""
        async for stored in self._queue.scan(
            store.TASKS, "todo.>", after_seq=self._read[store.TASKS]
        ):
            self._read[store.TASKS] = stored.seq
            task = msgspec.json.decode(stored.data, type=store.Task)
            self._todo[task.task] = task
        async for stored in self._queue.scan(
            store.TRUTH, "done.>", after_seq=self._read[store.TRUTH]
        ):
            self._read[store.TRUTH] = stored.seq
            self._todo.pop(msgspec.json.decode(stored.data, type=store.Done).task, None)

    async def _assign(self, task: store.Task, worker: str) -> None:
        rests_s = 0.0
        try:
            await self._push(task, worker)
        except ServiceError:
            rests_s = SUSPECT_S  # no word from the worker: another one gets the task, this one none for a while
        finally:
            self._busy.discard(task.session)
        await asyncio.sleep(rests_s)
        self._free.add(worker)

    async def _push(self, task: store.Task, worker: str) -> None:
        """Have a worker do a task, under its session's lock, and write down the result.

        Raises:
            ServiceError: no word from it.
        """
        lock = Redlock(self._locks, task.session, LOCK_S)
        if not await lock.take():
            return  # another allocator is at it
        async with lock.renewed():
            if not self._lease.is_held:  # the last look before the work is given away
                return
            answer = await self._queue.request(
                f"push.{worker}", store.encode(task), timeout_s=PUSH_S
            )
            if not lock.is_held:
                return  # ours no more: whoever has it writes the result
            mark = f"done-{task.task}"  # the server stores it once
            await self._queue.publish_acked(task.done, answer.data, message_id=mark)
            self._todo.pop(task.task, None)


async def main(name: str, queue_url: str, *lock_urls: str) -> None:
    """Run until killed."""
    queue = await store.connect(queue_url, name)
    locks = [await store.connect(url, name) for url in lock_urls]
    await store.tell_ready(queue, name)
    await Allocator(name, queue, locks).run()


if __name__ == "__main__":
    logs.configure(service="lab", level="critical")
    asyncio.run(main(*sys.argv[1:]))
