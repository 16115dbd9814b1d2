"""A pool with a promise on a real cluster: an hour of real chats in twenty minutes, and ten times the demand at once.

    ./dev bench pool-live [--seconds 1200] [--burst-seconds 60] [--only trace] [--only burst] [--save]

Starts a cluster of its own and leaves nothing running. What the figures mean: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import sys

from harness.cluster import private_cluster
from harness.machine import describe_machine, find_commit
from harness.report import Report, Target
from harness.running import ROOT, add_common_options, run, say
from harness.timelines import Timeline
from pool_live_parts.drive import POOL, Seen, drive
from pool_live_parts.figures import enter_burst, enter_trace, picture
from pool_live_parts.plans import Plan, burst, squeezed

from shared.pools import PoolSpec, Promise

PARTS = ("trace", "burst")
TARGETS = (
    Target("trace_cold_over_asked", 1.2),
    Target("trace_wait_p99_ms", 1000),
    Target("trace_lost", 0),
    Target("burst_lost", 0),
)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench pool-live", description=(__doc__ or "").splitlines()[0]
    )
    add_common_options(parser)
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="this part only; may be repeated"
    )
    parser.add_argument(
        "--seconds", type=float, default=1200, help="length of the trace's part (1200)"
    )
    parser.add_argument(
        "--faster", type=float, default=3.0, help="how much faster than it was the trace is played (3)"
    )  # fmt: skip
    parser.add_argument(
        "--cold-share", type=float, default=0.02, help="share that may wait for a pod (0.02)"
    )
    parser.add_argument(
        "--burst-seconds", type=float, default=60, help="usual demand before and after the burst (60)"
    )  # fmt: skip
    parser.add_argument(
        "--rate", type=float, default=3.0, help="usual demand of the burst's part (3/s)"
    )
    parser.add_argument("--task-ms", type=float, default=50, help="length of each task (50)")
    options = parser.parse_args()
    for name in ("seconds", "faster", "burst_seconds", "rate", "task_ms"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')}: above 0 expected")
    if not 0.0005 <= options.cold_share <= 0.5:
        parser.error("--cold-share: 0.0005 to 0.5 expected")
    return options


async def measure(given: argparse.Namespace) -> tuple[Report, list[Timeline]]:
    """Run the parts, each on a cluster of its own: what one learned is not to help the other."""
    report = Report("pool-live", find_commit(ROOT), {}, TARGETS)
    pictures, classes = [], set()
    for part in given.only or PARTS:
        plan = (
            squeezed(given.seconds, given.faster)
            if part == "trace"
            else burst(given.rate, given.burst_seconds)
        )
        say(f"{part}: {len(plan.due)} tasks in {plan.length_s:.0f} s")
        isolation, seen = await _driven(plan, given)
        classes.add(isolation)
        enter = enter_trace if part == "trace" else enter_burst
        enter(report, seen, plan, given.cold_share)
        pictures.append(picture(seen, plan))
    report.machine = describe_machine("+".join(sorted(classes)))
    return report, pictures


async def _driven(plan: Plan, given: argparse.Namespace) -> tuple[str, Seen]:
    declared = PoolSpec(
        name=POOL, stock=2, pods_max=200, promise=Promise(cold_share=given.cold_share, stock_min=1)
    )
    async with (
        private_cluster((declared,), isolation=given.isolation) as cluster,
        cluster.client() as client,
    ):
        isolation = await cluster.wait_warm(POOL, declared.stock)
        return isolation, await drive(cluster, client.bus, plan, given.task_ms / 1000)


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    parts = given.only or ()
    return run(lambda: measure(given), save=given.save, part="+".join(parts), must_reach=not parts)


if __name__ == "__main__":
    sys.exit(main())
