"""What the policy of warm pools costs and keeps on recorded traces, beside what others do, the optimum and oracles.

    ./dev bench pool [--workload NAME] [--seeds 4] [--pods 10000] [--save]

Needs no cluster: the production policy is replayed, on all cores. What the figures mean: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import sys

from harness.machine import describe_machine, find_commit
from harness.report import Report, Target
from harness.running import ROOT, add_common_options, run, say
from pool_parts.decisions import decision_us
from pool_parts.measured import Curves, Mean, Reached
from pool_parts.replays import replay_all
from pool_parts.scale import at_scale
from pool_parts.tables import as_policies, as_targets

WORKLOADS = ("servegen", "poisson", "mmpp", "azure-conv", "azure-code", "mooncake")
"""Those that take longest first."""
WAITS = ("poisson", "azure-conv", "servegen")
"""Workloads on which the P99 wait is a promise: others have bursts that are as long as a start."""
PROMISED = ("poisson", "servegen")
TIERS = ("poisson", "azure-conv", "servegen", "mmpp")
TARGETS = (
    Target("poisson_ratio_to_optimum", 1.10),
    Target("azure_conv_idle_per_activation_s", 28.0),
    Target("servegen_ratio_to_fixed", 0.52),
    Target("two_tier_ratio", 0.65),
    Target("two_tier_p999_wait_s", 2.0),
    Target("reached_epsilon_error", 0.20),
    Target("p99_wait_s", 1.0),
    Target("decision_us_at_10000", 500.0),
    Target("failover_over_share", 0.10),
)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench pool", description=(__doc__ or "").splitlines()[0])
    add_common_options(parser)
    parser.add_argument(
        "--workload",
        action="append",
        choices=WORKLOADS,
        help="replay this one only; may be repeated",
    )
    parser.add_argument("--seeds", type=int, default=4, help="how often each is drawn (4)")
    parser.add_argument(
        "--pods", type=int, default=10_000, help="warm pods while decisions are timed"
    )
    options = parser.parse_args()
    if options.seeds < 1 or options.pods < 1:
        parser.error("--seeds, --pods: above 0 expected")
    return options


async def measured(given: argparse.Namespace) -> tuple[Report, list[Curves]]:
    """Time decisions while nothing else runs, then replay each workload."""
    report = Report("pool", find_commit(ROOT), describe_machine(), TARGETS)
    say(
        f"decisions with {given.pods} warm pods, 1,000 claims each second, and the death of who decides"
    )
    times = decision_us(given.pods)
    report.add("decision_us_at_10000", times.claim_us)
    report.add("tick_us_at_10000", times.tick_us)
    report.add("state_bytes", times.state_bytes)
    scale = at_scale(given.pods)
    report.add("bell_us_at_10000", scale.bell_us)
    report.add("claim_us_at_10000", scale.claim_us)
    report.add("busy_share_at_1000_claims", scale.busy_share)
    report.add("memory_mib_at_10000", scale.memory_mib)
    report.add("failover_over_share", scale.over)
    names = [name for name in WORKLOADS if name in (given.workload or WORKLOADS)]
    say(f"{', '.join(names)}: {given.seeds} draws through each policy")
    found = await replay_all(names, given.seeds, say)
    enter(report, found)
    report.sections += [as_targets(report), as_policies(found)]
    return report, [each.curves for each in found.values()]


def enter(report: Report, found: dict[str, Reached]) -> None:
    """Enter what was found, as far as it was measured."""
    for name, each in found.items():
        word = name.replace("-", "_")
        if each.optimum_ratio is not None:
            _add(report, "poisson_ratio_to_optimum", each.optimum_ratio)
        if name == "servegen" and each.fixed_ratio is not None:
            _add(report, "servegen_ratio_to_fixed", each.fixed_ratio)
        if each.ours_idle_s is not None:
            _add(report, f"{word}_idle_per_activation_s", each.ours_idle_s)
        _add(report, f"{word}_cold_share_at_1_percent", each.cold_shares[0.01])
        _add(report, f"{word}_p99_wait_s", each.p99_wait_s)
        _add(report, f"{word}_two_tier_ratio", each.tiers_ratio)
    tiers = [found[name] for name in TIERS if name in found]
    if tiers:
        report.add("two_tier_ratio", max(each.tiers_ratio.value for each in tiers))
        report.add("two_tier_p999_wait_s", max(each.tiers_p999_wait_s for each in tiers))
    errors = [
        abs(reached.value / share - 1)
        for name in PROMISED
        if name in found
        for share, reached in found[name].cold_shares.items()
    ]
    if errors:
        report.add("reached_epsilon_error", max(errors))
    waits = [found[name].p99_wait_s.value for name in WAITS if name in found]
    if waits:
        report.add("p99_wait_s", max(waits))


def _add(report: Report, name: str, mean: Mean) -> None:
    report.add(name, mean.value)
    report.add(f"{name}_stderr", mean.error)


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    parts = given.workload or ()
    return run(lambda: measured(given), save=given.save, part="+".join(parts), must_reach=not parts)


if __name__ == "__main__":
    sys.exit(main())
