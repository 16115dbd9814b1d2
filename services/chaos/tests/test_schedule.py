"""What the schedule writes down of a fault that does not come to its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chaos.adapters.history_file import HistoryFile, read_history
from chaos.core.history import History
from chaos.core.scenario import Event, Scenario
from chaos.core.verdict import judge
from chaos.loops import schedule
from chaos.loops.schedule import Schedule
from chaos.loops.users import Stage
from chaos.ports.faults import Injected, NoVictim
from chaos.ports.standing import Pace, Standing


class Hangs:
    """A fault that is never done; what of it was done broke a promise."""

    name = "poison-task"
    is_healed = False

    async def inject(self) -> Injected:
        """Wait for ever."""
        await asyncio.Event().wait()
        raise AssertionError

    async def heal(self) -> None:
        """Note it."""
        self.is_healed = True

    async def missed(self) -> str:
        """It did bite, as far as it knows."""
        return ""

    async def failed(self) -> str:
        """What it saw."""
        return "it ended ok"


class NobodyThere(Hangs):
    """A fault without a victim; to take nothing back takes for ever."""

    async def inject(self) -> Injected:
        """Change nothing."""
        raise NoVictim("nobody is there")

    async def heal(self) -> None:
        """Hang."""
        await asyncio.Event().wait()


async def history_of(fault: Hangs, folder: Path) -> History:
    """Return the history of a schedule that does one fault."""
    scenario = Scenario(
        name="one",
        sessions=1,
        ramp_s=0,
        load_s=0,
        stock=1,
        schedule=(Event(0, "inject", fault.name),),
    )
    with HistoryFile(folder / "history.jsonl") as notes:
        stage = Stage(notes, Pace(), Standing())
        await Schedule(scenario, lambda _: fault, stage, lambda _: None).run()
    return read_history(folder / "history.jsonl")


async def test_a_fault_that_is_not_done_in_time_is_asked_what_it_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of it may have been done: what that broke makes the verdict false, not unknown."""
    monkeypatch.setattr(schedule, "FAULT_S", 0.05)
    fault = Hangs()

    history = await history_of(fault, tmp_path)

    assert fault.is_healed
    assert [row.type for row in history.nemesis] == ["inject", "missed", "heal", "failed"]
    assert "not done within" in history.nemesis[1].detail
    assert judge(history).verdict == "false"


async def test_a_fault_without_a_victim_is_taken_back_within_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is told of as what it is."""
    monkeypatch.setattr(schedule, "FAULT_S", 0.05)

    history = await history_of(NobodyThere(), tmp_path)

    assert [(row.type, row.detail) for row in history.nemesis] == [("skip", "nobody is there")]
