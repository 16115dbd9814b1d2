"""What is seen from outside: all that the state streams store, and what user code says, as rows of the history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.core.journal import read_step
from chaos.core.rows import Effect, Started, Stored, Version
from chaos.ports.notes import Notes
from shared import headers, messages, subjects
from shared.bus import Bus, Message
from shared.errors import Unavailable
from shared.messages import TaskResult
from shared.record import Record
from shared.testing.history import Place
from shared.testing.recorder import Recorder, record


class Observer:
    """Writes down what it hears."""

    def __init__(self, notes: Notes, began_ms: int, pool: str) -> None:
        """Write to `notes`.

        Args:
            notes: takes the rows.
            began_ms: wall clock at time 0 of the injector's clock, milliseconds since 1970.
            pool: of the run; sessions of others, on a system that others use too, are none of its matter.
        """
        self._notes, self._began_ms, self._pool = notes, began_ms, pool
        self.versions: dict[str, Version] = {}
        """The newest of each session."""
        self.stored: set[str] = set()
        """Tasks that have a result."""
        self._ledger = Ledger()

    def on_stored(self, at: Place, subject: str, data: bytes) -> None:
        """Take in what a state stream has stored."""
        if subject.startswith("rec."):
            found = messages.decode(data, Record)
            if found.pool == self._pool:
                self._on_record(at, found)
        elif subject.startswith("done."):
            result = messages.decode(data, TaskResult)
            if result.pool not in ("", self._pool):
                return
            self.stored.add(result.task)
            self._notes.write(
                Stored(
                    time=self._notes.now(),
                    at=at,
                    session=result.session,
                    task=result.task,
                    status=result.status,
                    epoch=result.epoch,
                    worker=result.worker,
                    attempt=result.attempt,
                )
            )

    def _on_record(self, at: Place, found: Record) -> None:
        last = found.interruptions[-1] if found.interruptions else None
        # A revocation raises the epoch by one, the claim after it once more.
        is_news = last is not None and last.epoch == found.epoch - 1
        version = Version(
            time=self._notes.now(),
            at=at,
            session=found.session,
            state=found.state,
            epoch=found.epoch,
            position=found.position,
            tasks_done=found.tasks_done,
            owner=found.owner,
            node=found.node,
            revoked_at=(last.revoked_ms - self._began_ms) / 1000 if last and is_news else None,
            cause=last.cause if last and is_news else "",
            is_lost=found.lost is not None,
        )
        known = self.versions.get(found.session)
        if known is None or known.at < at:
            self.versions[found.session] = version
        self._notes.write(version)

    def on_output(self, message: Message) -> None:
        """Take in what a task says, on whichever connection it is heard first."""
        _, session, task = subjects.parse_task(message.subject)
        epoch = int(message.headers.get(headers.EPOCH, "0"))
        number = message.headers.get(headers.NUMBER, "")
        if not self._ledger.is_new(task, epoch, number):
            return
        now = self._notes.now()
        event = message.headers.get(headers.EVENT)
        if event == "started":
            self._notes.write(Started(time=now, session=session, task=task, epoch=epoch))
        elif event == "output" and message.headers.get(headers.STREAM) == "stdout":
            for line in self._ledger.lines(task, epoch, message.data):
                step = read_step(line)
                if step is not None:
                    self._notes.write(
                        Effect(
                            time=now,
                            session=session,
                            task=task,
                            step=step.step,
                            epoch=epoch,
                            length=step.length,
                            chain=step.chain,
                        )
                    )


class Ledger:
    """Puts output together: each message once, lines whole."""

    def __init__(self) -> None:
        self._heard: dict[tuple[str, int], set[str]] = {}
        self._rest: dict[tuple[str, int], bytes] = {}

    def is_new(self, task: str, epoch: int, number: str) -> bool:
        """Return whether a message is heard for the first time."""
        heard = self._heard.setdefault((task, epoch), set())
        if number in heard:
            return False
        heard.add(number)
        return True

    def lines(self, task: str, epoch: int, data: bytes) -> list[str]:
        """Return the lines that a piece of output completes."""
        *whole, rest = (self._rest.pop((task, epoch), b"") + data).split(b"\n")
        if rest:
            self._rest[task, epoch] = rest
        return [line.decode(errors="replace") for line in whole]


async def count_unseen(recorder: Recorder, within_s: float) -> int:
    """Read the state streams once more; return of how many of their places nobody knows what was stored there.

    Raises:
        Unavailable: they could not be read to their end in time.
        ServiceError: nor at all.
    """
    try:
        async with asyncio.timeout(within_s):
            return (await recorder.history(())).unseen
    except TimeoutError:
        raise Unavailable(f"the streams could not be read within {within_s:g} s") from None


@asynccontextmanager
async def observe(observer: Observer, buses: tuple[Bus, Bus]) -> AsyncIterator[Recorder]:
    """Observe while the block lasts, over two connections to different servers.

    Raises:
        ServiceError: no answer at the beginning.
    """
    async with record(*buses) as recorder:
        recorder.hearers.append(observer.on_stored)
        heard = [await bus.subscribe("out.>", observer.on_output) for bus in buses]
        try:
            yield recorder
        finally:
            for subscription in heard:
                await subscription.unsubscribe()
