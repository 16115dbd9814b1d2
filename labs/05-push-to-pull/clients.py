"""The users of both sides: each has a session, sends a task, waits for its result, sends the next. And what they saw."""

from __future__ import annotations

import asyncio
import time

import msgspec
import store

from chaos.core.journal import whole
from chaos.core.rows import Accepted, AnyRow, Effect, Op, Seen, Stored, Version
from shared.bus import Bus, Message

SESSIONS = 6
PAUSE_S = 0.1
PATIENCE_S = 15.0


class Clients:
    """All users, on one connection; their history in the rows of the chaos lab."""

    def __init__(self, bus: Bus) -> None:
        """Begin now."""
        self._bus = bus
        self._began = time.monotonic()
        self.rows: list[AnyRow] = []
        self._waiting: dict[str, asyncio.Future[store.Done]] = {}
        self._effects: asyncio.Queue[store.Effect] = asyncio.Queue(1000)
        self.done = 0
        self.is_late = False
        """Whether users begin nothing any more."""

    def now(self) -> float:
        """Return the clock of the history."""
        return time.monotonic() - self._began

    async def listen(self) -> None:
        """Hear results when they are stored, and tasks when they begin."""
        await self._bus.subscribe("heard.>", self._on_done)
        await self._bus.subscribe("effect.>", self._on_effect)

    async def use(self, session: int) -> None:
        """Be the user of a session until it is late."""
        number = 0
        while not self.is_late:
            await self._turn(f"s{session}", f"{session}-{number}")
            number += 1
            await asyncio.sleep(PAUSE_S)

    async def next_effect(self, *, within_s: float) -> store.Effect:
        """Wait until user code of a task begins; the ones before are forgotten."""
        while not self._effects.empty():
            self._effects.get_nowait()
        async with asyncio.timeout(within_s):
            return await self._effects.get()

    async def wait_for_session(self, session: str, times: int, *, within_s: float) -> float:
        """Wait until user code of a session has begun so often; return how long the first took, seconds.

        Raises:
            TimeoutError: it has not.
        """
        began, first_s, heard = time.monotonic(), 0.0, 0
        async with asyncio.timeout(within_s):
            while heard < times:
                if (await self._effects.get()).session == session:
                    heard += 1
                    first_s = first_s or time.monotonic() - began
        return first_s

    async def _turn(self, session: str, token: str) -> None:
        task = store.Task(session, f"t{token}", token)
        self._waiting[task.task] = asyncio.get_running_loop().create_future()
        self._note(task, "invoke")
        await self._bus.publish_acked(task.todo, store.encode(task), message_id=task.task)
        self.rows.append(Accepted(time=self.now(), session=session, task=task.task))
        try:
            async with asyncio.timeout(PATIENCE_S):
                done = await self._waiting[task.task]
        except TimeoutError:
            self._note(task, "info")
            return
        self.done += 1
        self._note(task, "ok", seen=done.seen)

    def _note(self, task: store.Task, kind: str, seen: Seen | None = None) -> None:
        row = Op(
            time=self.now(),
            type=kind,
            f="append",
            process=int(task.session[1:]),
            session=task.session,
            token=task.token,
            task=task.task,
            steps=1,
            seen=seen,
        )
        self.rows.append(row)

    def _on_done(self, message: Message) -> None:
        done = msgspec.json.decode(message.data, type=store.Done)
        waiting = self._waiting.get(done.task)
        if waiting is not None and not waiting.done():
            waiting.set_result(done)

    def _on_effect(self, message: Message) -> None:
        if not self._effects.full():
            self._effects.put_nowait(msgspec.json.decode(message.data, type=store.Effect))

    async def read_all(self) -> None:
        """Enter what the streams hold at the end: effects, results, records, and each session's journal."""
        async for stored in self._bus.scan(store.TRUTH, "effect.>"):
            effect = msgspec.json.decode(stored.data, type=store.Effect)
            row = Effect(
                time=self.now(),
                session=effect.session,
                task=effect.task,
                step=0,
                epoch=effect.epoch,
            )
            self.rows.append(row)
        async for stored in self._bus.scan(store.TRUTH, "done.>"):
            done = msgspec.json.decode(stored.data, type=store.Done)
            session = stored.subject.split(".")[1]
            self.rows.append(
                Stored(
                    time=self.now(),
                    at=(0, stored.seq),
                    session=session,
                    task=done.task,
                    status="ok",
                    epoch=done.epoch,
                    worker=done.worker,
                )
            )
        async for stored in self._bus.scan(store.TRUTH, "rec.>"):
            record = msgspec.json.decode(stored.data, type=store.Record)
            self.rows.append(
                Version(
                    time=self.now(),
                    at=(0, stored.seq),
                    session=stored.subject.split(".")[1],
                    state=record.state,
                    epoch=record.epoch,
                    tasks_done=record.tasks_done,
                    owner=record.owner,
                )
            )
        for session in range(SESSIONS):
            await self._read_journal(f"s{session}", session)

    async def _read_journal(self, session: str, process: int) -> None:
        found = await self._bus.read_last(store.TRUTH, f"ws.{session}")
        journal = "" if found is None else found.data.decode()
        common = {"f": "read", "process": process, "session": session, "token": "read"}
        task = f"read-{session}"
        invoke = Op(time=self.now(), type="invoke", task=task, **common)
        told = Op(time=self.now(), type="ok", task=task, seen=whole(journal), **common)
        # Every call has its result; of these reads, which are no tasks, it is what was read.
        stored = Stored(
            time=self.now(), at=(1, process), session=session, task=task, status="ok", epoch=0
        )
        self.rows += [invoke, told, stored]
