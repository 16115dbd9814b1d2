"""The schedule: does what the scenario says at its time, and takes every fault back at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from chaos.core.rows import Nemesis, Phase
from chaos.core.scenario import Event, Scenario
from chaos.loops.users import Stage
from chaos.ports.faults import Fault, Injected, NoVictim

FAULT_S = 60.0
"""Longest time that one injection or healing takes."""
Make = Callable[[str], Fault]
Tell = Callable[[str], None]


class Schedule:
    """Walks through a scenario's events."""

    def __init__(self, scenario: Scenario, make: Make, stage: Stage, tell: Tell) -> None:
        """Make faults by name with `make`; tell people in words with `tell`."""
        self._scenario, self._make, self._stage, self._tell = scenario, make, stage, tell
        self._open: list[Fault] = []
        self.injected: list[Injected] = []
        self.hears_injected: Callable[[Injected], None] = lambda _: None

    async def run(self) -> None:
        """Do everything at its time; return at the end of the load."""
        for event in sorted(self._scenario.schedule, key=lambda one: one.at_s):
            await self._until(event.at_s)
            await self._do(event)
        await self._until(self._scenario.load_s)

    async def heal_all(self) -> None:
        """Take back every fault that is open, whatever one of them says."""
        while self._open:
            await self._heal(self._open.pop())

    async def _until(self, at_s: float) -> None:
        await asyncio.sleep(max(0.0, at_s - self._stage.notes.now()))

    async def _do(self, event: Event) -> None:
        match event.do:
            case "phase":
                self._stage.standing.phase = event.what
                self._stage.notes.write(Phase(time=self._stage.notes.now(), name=event.what))
                self._tell(event.what)
            case "inject":
                await self._inject(event.what)
            case "heal":
                for fault in list(self._open):
                    if event.what in ("", fault.name):
                        self._open.remove(fault)
                        await self._heal(fault)
            case "burst":
                self._stage.pace.burst = event.factor
                self._tell(f"the load is {event.factor:g} times what it was")
            case "calm":
                self._stage.pace.burst = 1.0

    async def _inject(self, name: str) -> None:
        fault = self._make(name)
        notes = self._stage.notes
        began_s = notes.now()
        self._open.append(fault)
        try:
            async with asyncio.timeout(FAULT_S):
                done = await fault.inject()
        except NoVictim as exc:
            self._open.remove(fault)
            await self._take_back(fault)
            notes.write(Nemesis(time=notes.now(), type="skip", fault=name, detail=str(exc)))
            self._tell(f"{name}: no victim: {exc}")
            return
        except TimeoutError:
            # Some of it may have been done, and the fault may have seen what that led to: it is asked as any other is.
            self._open.remove(fault)
            notes.write(Nemesis(time=began_s, type="inject", fault=name))
            self._note(fault, "missed", f"it was not done within {FAULT_S:g} s")
            await self._heal(fault)
            return
        self.injected.append(done)
        self.hears_injected(done)
        notes.write(
            Nemesis(
                time=done.at_s,
                type="inject",
                fault=name,
                targets=done.targets,
                detail=done.detail,
            )
        )
        words = f"{name}: {', '.join(done.targets)}"
        self._stage.standing.marks.append(f"{done.at_s:.0f} s {words}")
        self._tell(words)

    async def _take_back(self, fault: Fault) -> None:
        try:
            async with asyncio.timeout(FAULT_S):
                await fault.heal()
        except TimeoutError:
            self._tell(f"{fault.name}: could not be healed within {FAULT_S:g} s")

    async def _heal(self, fault: Fault) -> None:
        notes = self._stage.notes
        await self._take_back(fault)
        notes.write(Nemesis(time=notes.now(), type="heal", fault=fault.name))
        self._tell(f"{fault.name}: healed")
        if why := await fault.missed():
            self._note(fault, "missed", why)
        if why := await fault.failed():
            self._note(fault, "failed", why)

    def _note(self, fault: Fault, what: Literal["missed", "failed"], why: str) -> None:
        notes = self._stage.notes
        notes.write(Nemesis(time=notes.now(), type=what, fault=fault.name, detail=why))
        self._tell(f"{fault.name}: {what}: {why}")
