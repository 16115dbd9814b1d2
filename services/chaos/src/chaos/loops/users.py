"""Users: each makes a session and gives it one turn after another; and whoever sends one-shots by the clock."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from chaos.core.dice import Dice
from chaos.core.journal import FILE, code_of, read_seen, whole
from chaos.core.people import Person, Turn, gaps, turns
from chaos.core.rows import Accepted, Cut, Op, Seen
from chaos.ports.door import Ask, Door, Hears, Told
from chaos.ports.notes import Notes
from chaos.ports.standing import Pace, Standing

ONE_SHOT_PAUSE_S = 0.02
RETRY_S = 2.0
ONCE = -1
"""Number of whoever sends one-shots."""
OPEN_ONE_SHOTS_MAX = 400
READS_AT_ONCE = 24


class Stage(msgspec.Struct, frozen=True):
    """What all who drive the load share."""

    notes: Notes
    pace: Pace
    standing: Standing


class User:
    """One session's user."""

    def __init__(self, person: Person, door: Door, dice: Dice, stage: Stage) -> None:
        """Use one way to the system; `dice` decides what is done and when."""
        self.person = person
        self.session = ""
        self._door, self._stage = door, stage
        self._turns = turns(dice, person)
        self._made = False

    async def work(self, starts_after_s: float) -> None:
        """Make the session, then give it turns until the load is over."""
        await self._rest(starts_after_s)
        while not self._stage.pace.over.is_set():
            turn = next(self._turns)
            if self._made:
                await self._rest(self._stage.pace.pause_s(turn.think_s))
            if not self._stage.pace.over.is_set():
                await self._take(turn)

    async def _rest(self, seconds: float) -> None:
        """Wait, or until the load is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stage.pace.over.wait()

    async def _take(self, turn: Turn) -> None:
        is_first = not self._made
        task = self._door.draw() if is_first else str(uuid.uuid4())
        if is_first:
            self.session = task
        ask = Ask(
            session=self.session,
            task=task,
            code=code_of(turn.token, turn.pauses),
            klass=self.person.habit.klass,
        )
        row = Op(
            time=self._stage.notes.now(),
            type="invoke",
            f="append",
            process=self.person.number,
            session=self.session,
            token=turn.token,
            task=task,
            via=self._door.via,
            klass=self.person.habit.klass,
            kind=self.person.habit.kind,
            steps=len(turn.pauses),
        )
        told = await call(self._door, ask, row, self._stage)
        self._stage.standing.turns += 1
        if is_first and not told.did_nothing:
            self._made = True
            self._stage.standing.sessions += 1
        elif is_first:
            await self._rest(RETRY_S)

    async def read(self) -> None:
        """Read the whole journal, in the session's turn, again where nobody could be asked."""
        if not self._made:
            return
        for _ in range(3):
            notes, task = self._stage.notes, str(uuid.uuid4())
            row = Op(
                time=notes.now(),
                type="invoke",
                f="read",
                process=self.person.number,
                session=self.session,
                token=f"{self.person.number}-read",
                task=task,
                via=self._door.via,
            )
            notes.write(row)
            told = await self._door.read(self.session, task, FILE)
            seen = whole(told.stdout) if told.status == "ok" else None
            notes.write(_end(row, told, seen, notes.now()))
            if seen is not None:
                return


async def send_one_shots(
    doors: Iterator[Door], dice: Dice, rate: float, stage: Stage, klasses: tuple[str, ...]
) -> None:
    """Send one-shots by the clock, whatever became of the earlier ones, until the load is over; then wait for them.

    Users who think longer, on a busy machine, do not slow them down: gaps of the queue are seen by them.
    """
    number = 0
    async with asyncio.TaskGroup() as group:
        under_way: set[asyncio.Task[None]] = set()
        due = stage.notes.now()
        for gap in gaps(dice, rate):
            if stage.pace.over.is_set():
                return
            if len(under_way) < OPEN_ONE_SHOTS_MAX:
                klass = klasses[dice.randrange(len(klasses))]
                task = group.create_task(_one_shot(next(doors), number, klass, stage))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                number += 1
            due += gap / stage.pace.burst
            await asyncio.sleep(max(0.0, due - stage.notes.now()))


async def _one_shot(door: Door, number: int, klass: str, stage: Stage) -> None:
    task, token = door.draw(), f"once-{number}"
    code = code_of(token, [ONE_SHOT_PAUSE_S])
    ask = Ask(session=task, task=task, code=code, klass=klass, keep=False)
    row = Op(
        time=stage.notes.now(),
        type="invoke",
        f="once",
        process=ONCE,
        session=task,
        token=token,
        task=task,
        via=door.via,
        klass=klass,
        kind="once",
        steps=1,
    )
    await call(door, ask, row, stage)
    stage.standing.one_shots += 1


async def call(door: Door, ask: Ask, row: Op, stage: Stage) -> Told:
    """Make a call and write down what becomes of it."""
    notes, standing = stage.notes, stage.standing
    session, task, via = ask.session, ask.task, door.via

    def accepted() -> None:
        notes.write(Accepted(time=notes.now(), session=session, task=task, is_once=row.f == "once"))

    def cut() -> None:
        notes.write(Cut(time=notes.now(), type="cut", session=session, task=task, via=via))

    def attached() -> None:
        notes.write(Cut(time=notes.now(), type="attached", session=session, task=task, via=via))

    def gap() -> None:
        notes.write(Cut(time=notes.now(), type="gap", session=session, task=task, via=via))

    notes.write(row)
    standing.waiting[task] = row.time
    try:
        told = await door.ask(ask, Hears(accepted=accepted, cut=cut, attached=attached, gap=gap))
    finally:
        standing.waiting.pop(task, None)
    end = _end(row, told, read_seen(told.stdout), notes.now())
    standing.errors += end.type != "ok"
    notes.write(end)
    return told


def _end(row: Op, told: Told, seen: Seen | None, now: float) -> Op:
    is_ok = told.status == "ok" and seen is not None
    return Op(
        time=now,
        type="ok" if is_ok else "fail" if told.did_nothing else "info",
        f=row.f,
        process=row.process,
        session=row.session,
        token=row.token,
        task=row.task,
        seen=seen if is_ok else None,
        status=told.status,
        error=told.error[:200] if not is_ok else "",
        epoch=told.epoch,
        attempt=told.attempt,
    )
