"""Faults at every step of client, worker and pool-manager: real processes, real kills, judged by the streams."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import pytest
from faults_parts.drive import Driver, Outcome, pools
from faults_parts.judgement import judge_all
from faults_parts.scenarios import (
    Fault,
    Scenario,
    pairs,
    sample,
    singles,
    some_of_each_step,
)
from faults_parts.table import never_fired
from faults_parts.world import open_world
from harness.running import fresh_folder

from agent_sandbox.places import FAILPOINTS_VARIABLE
from shared.failpoints.steps import STEPS

LANES = 6
SEED = 1


async def played(scenarios: Sequence[Scenario]) -> list[Outcome]:
    """Play scenarios in a world of their own; return what became of them."""
    with fresh_folder() as folder:
        async with open_world(folder, pools(LANES, scenarios), print) as world:
            outcomes = await Driver(world, LANES, print).play(scenarios)
            await judge_all(world.recorder, outcomes)
    return outcomes


def wrong(outcomes: Sequence[Outcome]) -> dict[str, list[str]]:
    """Return what must not be: wrong ends, and faults that did not strike."""
    return never_fired(outcomes) | wrong_ends(outcomes)


def wrong_ends(outcomes: Iterable[Outcome]) -> dict[str, list[str]]:
    """Return wrong ends alone."""
    return {f"{one.scenario.name} ({one.cast.tenant})": one.wrong for one in outcomes if one.wrong}


def one_of_each_step() -> list[Scenario]:
    """Return one kind of fault for each step at which a worker changes something, another one at each."""
    found = []
    changing = [
        step for step in STEPS if step.service == "worker" and step.form in ("write", "pull", "run")
    ]
    for number, step in enumerate(changing):
        kind = step.kinds[number % len(step.kinds)]
        story = step.story.split()[-1]
        found += [
            one
            for one in singles()
            if one.faults == (Fault(step.name, kind),) and one.story == story
        ]
    return found


@pytest.mark.timeout(240)
async def test_a_fault_at_each_write_of_a_worker_is_recovered() -> None:
    """One kind for each step; the slow test drives faults at all other steps, too."""
    outcomes = await played(one_of_each_step())

    assert wrong(outcomes) == {}
    assert FAILPOINTS_VARIABLE not in os.environ, "clients of later tests would look for faults"
    assert all(one.gap_s > 0 for one in outcomes), "progress was not heard"


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_faults_at_every_step_are_recovered() -> None:
    """A crash or another kind at each step, which strikes; all kinds are driven by `./dev bench faults`."""
    outcomes = await played(some_of_each_step(SEED))

    assert wrong(outcomes) == {}
    fired = {fault.step for one in outcomes for fault in one.scenario.faults}
    assert fired == {step.name for step in STEPS}


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_two_faults_in_one_story_are_recovered() -> None:
    """A sample of the pairs, larger ones by `./dev bench faults --pairs`; the second need not strike where the first changed the way."""
    outcomes = await played(sample(pairs(), 30, SEED))

    assert wrong_ends(outcomes) == {}
    assert sum(not one.unfired for one in outcomes) > len(outcomes) / 2
