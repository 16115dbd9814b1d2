"""One run: users come, the schedule goes its way, everything comes to rest, and every journal is read."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from chaos.core.dice import Dice
from chaos.core.people import people, ramp
from chaos.core.scenario import Scenario
from chaos.loops.schedule import Schedule
from chaos.loops.users import READS_AT_ONCE, Stage, User, send_one_shots
from chaos.ports.door import Door

END_S = 5.0
SETTLE_S = 1.0
"""What was stored last is heard within that."""
NOT_READ_S = 30.0

MakeDice = Callable[[str], Dice]


class Drive(msgspec.Struct, frozen=True):
    """What a run consists of."""

    scenario: Scenario
    schedule: Schedule
    stage: Stage
    doors: Mapping[str, Sequence[Door]]
    """By way, `nats` and `http`."""
    dice: MakeDice
    """Makes dice for a purpose, by name: each part of the load has its own, so that no other changes what it does."""
    tell: Callable[[str], None]

    async def run(self) -> None:
        """Run load and faults side by side until the schedule's end, then drain and read.

        Raises:
            Exception: of whichever part fails first; the others are ended.
        """
        users = self._users()
        starts = ramp(len(users), self.scenario.ramp_s)
        load = {asyncio.create_task(u.work(at)) for u, at in zip(users, starts, strict=True)}
        load.add(asyncio.create_task(self._one_shots()))
        schedule = asyncio.create_task(self.schedule.run())
        try:
            await self._first_of(schedule, load)
            self.stage.pace.over.set()
            await self.schedule.heal_all()
            self._enter("drain")
            await self._drain(load)
            self._enter("strong reads")
            await self._read_all(users)
            await asyncio.sleep(SETTLE_S)
        finally:
            self.stage.pace.over.set()
            await _end({schedule, *load})
            await self.schedule.heal_all()

    def _users(self) -> list[User]:
        persons = people(self.dice("people"), self.scenario.sessions, self.scenario.habits)
        ways = {via: itertools.cycle(doors) for via, doors in self.doors.items()}
        return [
            User(person, next(ways[person.via]), self.dice(f"user-{person.number}"), self.stage)
            for person in persons
        ]

    async def _one_shots(self) -> None:
        every = [door for doors in zip(*self.doors.values(), strict=False) for door in doors]
        await send_one_shots(
            itertools.cycle(every),
            self.dice("one-shots"),
            self.scenario.one_shots_per_s,
            self.stage,
            ("interactive", "interactive", "interactive", "batch"),
        )

    def _enter(self, phase: str) -> None:
        self.stage.standing.phase = phase
        self.tell(phase)

    async def _first_of(self, schedule: asyncio.Task[None], load: set[asyncio.Task[None]]) -> None:
        """Wait for the schedule's end; whoever of the load fails before fails the run."""
        while not schedule.done():
            left = {task for task in load if not task.done()}
            await asyncio.wait({schedule, *left}, return_when=asyncio.FIRST_COMPLETED)
            for task in load:
                if task.done():
                    task.result()
        schedule.result()

    async def _drain(self, load: set[asyncio.Task[None]]) -> None:
        """Let what is under way come to its end."""
        done, left = await asyncio.wait(load, timeout=self.scenario.drain_s)
        for task in done:
            task.result()
        if left:
            self.tell(f"{len(left)} users still wait after {self.scenario.drain_s:g} s")
            await _end(left)

    async def _read_all(self, users: Sequence[User]) -> None:
        """Read every journal, a few at once."""
        turn = asyncio.Semaphore(READS_AT_ONCE)

        async def read(user: User) -> None:
            async with turn:
                await user.read()

        reads = {asyncio.create_task(read(user)) for user in users}
        try:
            _, left = await asyncio.wait(reads, timeout=self.scenario.drain_s + NOT_READ_S)
            if left:
                self.tell(f"{len(left)} journals could not be read")
        finally:
            await _end(reads)


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel what still runs, and wait for it within a bound."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=END_S)
    for task in tasks:
        if task.done():
            with suppress(asyncio.CancelledError, Exception):
                task.result()
