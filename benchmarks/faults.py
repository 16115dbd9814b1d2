"""Places a fault at every step of client, worker and pool-manager, and looks whether all recover.

    ./dev bench faults [--pairs N | --pairs all] [--only WORD] [--seed 1] [--lanes 8] [--save]

Starts a cluster of its own and leaves nothing running. What is placed where: docs/faults.md.
"""

from __future__ import annotations

import argparse
import sys
import time

from faults_parts.drive import Driver, pools
from faults_parts.judgement import judge_all
from faults_parts.scenarios import Scenario, pairs, sample, singles
from faults_parts.table import describe, enter
from faults_parts.world import open_world
from harness.machine import describe_machine, find_commit
from harness.pictures import Series
from harness.report import Report, Target
from harness.running import ROOT, add_common_options, fresh_folder, run, say

TARGETS = (Target("wrong", 0), Target("not_fired", 0))
OF_PAIRS = (Target("wrong", 0),)
"""The first fault may change the way, so that the second is never come by."""


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench faults", description=(__doc__ or "").splitlines()[0]
    )
    add_common_options(parser)
    parser.add_argument(
        "--pairs", default="", help="so many pairs of faults, or `all`, instead of single ones"
    )
    parser.add_argument("--only", default="", help="only scenarios in whose name this stands")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of pairs (1)")
    parser.add_argument("--lanes", type=int, default=8, help="scenarios at once (8)")
    return parser.parse_args()


def choose(given: argparse.Namespace) -> list[Scenario]:
    """Return the scenarios that were asked for."""
    if not given.pairs:
        found = singles()
    elif given.pairs == "all":
        found = pairs()
    else:
        found = sample(pairs(), int(given.pairs), given.seed)
    return [one for one in found if given.only in one.name]


async def measure(given: argparse.Namespace) -> tuple[Report, list[Series]]:
    """Play the scenarios and judge them."""
    chosen = choose(given)
    report = Report("faults", find_commit(ROOT), {}, OF_PAIRS if given.pairs else TARGETS)
    began = time.monotonic()
    with fresh_folder() as folder:
        async with open_world(folder, pools(given.lanes, chosen), say) as world:
            say(f"{len(chosen)} scenarios, {given.lanes} at once")
            outcomes = await Driver(world, given.lanes, say).play(chosen)
            await judge_all(world.recorder, outcomes)
    enter(report, outcomes, time.monotonic() - began)
    report.machine = describe_machine("process")
    for outcome in outcomes:
        if outcome.wrong:
            say(f"WRONG: {outcome.scenario.name} ({outcome.cast.tenant})")
            for text in outcome.wrong:
                say(f"    {text}")
    report.sections.append(describe(outcomes))
    return report, []


def main() -> int:
    """Run it; return the exit code."""
    given = parse()
    part = "pairs" if given.pairs else ""
    return run(lambda: measure(given), save=given.save, part=part, must_reach=True)


if __name__ == "__main__":
    sys.exit(main())
