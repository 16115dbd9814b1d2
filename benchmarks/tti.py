"""Time to interactive: from the call that publishes a task to the first instruction of user code.

    ./dev bench tti [--only PART …] [--seconds 60] [--rate 45] [--save]

Each part starts a cluster of its own and leaves nothing running. What the figures mean: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable

from harness.machine import describe_machine, find_commit
from harness.pictures import Series
from harness.report import Report, Target
from harness.running import ROOT, add_common_options, run, say
from tti_parts import burst, on_demand, warm
from tti_parts.options import Options, Run

TARGETS = (
    Target("warm_p50_ms", 10),
    Target("warm_p99_ms", 50),
    Target("warm_share", 0.99, at_least=True),
    Target("on_demand_p50_ms", 40),
    Target("start_alone_p50_ms", 20),
    Target("burst100_all_started_s", 1),
    Target("burst300_all_started_s", 1),
)
PARTS: dict[str, Callable[[Run], Awaitable[None]]] = {
    "start": on_demand.measure_start,
    "on-demand": on_demand.measure,
    "warm": warm.measure,
    "burst100": lambda run: burst.measure(run, 100),
    "burst300": lambda run: burst.measure(run, 300),
}


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench tti", description=(__doc__ or "").splitlines()[0])
    add_common_options(parser)
    parser.add_argument("--seconds", type=float, default=60, help="length of the warm part (60)")
    parser.add_argument(
        "--rate", type=float, default=45, help="publishes for each second of the warm part (45)"
    )
    parser.add_argument(
        "--stock", type=int, default=64, help="warm workers of the warm part's pool (64)"
    )
    parser.add_argument(
        "--only", action="append", choices=list(PARTS), metavar="PART", help=", ".join(PARTS)
    )
    parser.add_argument(
        "--caller", choices=("library", "bare"), default="library",
        help="publish through the client library, or over a bare NATS connection",
    )  # fmt: skip
    options = parser.parse_args()
    for name in ("seconds", "rate", "stock"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name}: above 0 expected")
    return options


def main() -> int:
    """Run the chosen parts; return the exit code."""
    given = parse()
    chosen = [part for part in PARTS if given.only is None or part in given.only]

    async def measure() -> tuple[Report, list[Series]]:
        options = Options(
            seconds=given.seconds,
            rate=given.rate,
            stock=given.stock,
            isolation=given.isolation,
            caller=given.caller,
        )
        one = Run(options, Report("tti", find_commit(ROOT), {}, TARGETS))
        for part in chosen:
            say(f"part {part}")
            await PARTS[part](one)
        one.report.machine = describe_machine("+".join(sorted(one.isolation)))
        if given.caller != "library":
            one.report.notes.append(
                "published over a bare NATS connection, not through the client library"
            )
        return one.report, one.series

    return run(measure, save=given.save, part="" if given.only is None else "+".join(chosen))


if __name__ == "__main__":
    sys.exit(main())
