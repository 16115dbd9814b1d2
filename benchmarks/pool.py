"""What the policy of warm pools costs and keeps on recorded traces, beside what others do, the optimum and oracles.

    ./dev bench pool [--workload NAME] [--seeds 4] [--pods 10000] [--save]

Needs no cluster: the production policy is replayed. What the figures mean: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from harness.machine import describe_machine, find_commit
from harness.report import Report, Target, table
from harness.running import ROOT, add_common_options, run, say
from pool_parts.decisions import decision_us
from pool_parts.measured import Curves, Reached, measure

WORKLOADS = ("poisson", "azure-conv", "servegen", "mmpp")
WAITS = ("poisson", "azure-conv", "servegen")
"""Workloads on which the P99 wait is a promise: bursts that are as long as a start are the fourth's."""
PROMISED = ("poisson", "servegen")
TARGETS = (
    Target("poisson_ratio_to_optimum", 1.10),
    Target("azure_conv_idle_per_activation_s", 28.0),
    Target("servegen_ratio_to_fixed", 0.52),
    Target("two_tier_ratio", 0.65),
    Target("two_tier_p999_wait_s", 2.0),
    Target("reached_epsilon_error", 0.20),
    Target("p99_wait_s", 1.0),
    Target("decision_us_at_10000", 500.0),
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
    """Replay each workload, then time decisions."""
    report = Report("pool", find_commit(ROOT), describe_machine(), TARGETS)
    found: dict[str, Reached] = {}
    for name in given.workload or WORKLOADS:
        say(f"{name}: {given.seeds} seeds through each policy")
        found[name] = await asyncio.to_thread(measure, name, given.seeds)
    say(f"decisions with {given.pods} warm pods")
    times = decision_us(given.pods)
    report.add("decision_us_at_10000", times.claim_us)
    report.add("tick_us_at_10000", times.tick_us)
    report.add("state_bytes", times.state_bytes)
    enter(report, found)
    report.sections.append(as_table(found))
    return report, [each.curves for each in found.values()]


def enter(report: Report, found: dict[str, Reached]) -> None:
    """Enter what was found, as far as it was measured."""
    for name, each in found.items():
        word = name.replace("-", "_")
        if each.optimum_ratio is not None:
            report.add("poisson_ratio_to_optimum", each.optimum_ratio)
        if name == "azure-conv":
            report.add("azure_conv_idle_per_activation_s", each.ours_idle_s)
        if name == "servegen":
            report.add(
                "servegen_ratio_to_fixed", each.ours_idle_s / (each.others_idle_s["fixed N"] or 1)
            )
        report.add(f"{word}_cold_share_at_1_percent", each.cold_shares[0.01])
        report.add(f"{word}_p99_wait_s", each.p99_wait_s)
        report.add(f"{word}_two_tier_ratio", each.tiers_ratio)
    if not found:
        return
    report.add("two_tier_ratio", max(each.tiers_ratio for each in found.values()))
    report.add("two_tier_p999_wait_s", max(each.tiers.wait_p999_s for each in found.values()))
    errors = [
        abs(reached / share - 1)
        for name in PROMISED
        if name in found
        for share, reached in found[name].cold_shares.items()
    ]
    if errors:
        report.add("reached_epsilon_error", max(errors))
    waits = [found[name].p99_wait_s for name in WAITS if name in found]
    if waits:
        report.add("p99_wait_s", max(waits))


def as_table(found: dict[str, Reached]) -> str:
    """Return what each policy idles at 1 % cold, pod-seconds per activation."""
    policies = ["fixed N", "KEDA-like", "Knative-like", "rate oracle", "seer"]
    head = ["idle pod-s at 1 % cold", "self-tuning", *policies, "over optimum", "two tiers"]
    rows = [
        [
            name,
            f"{each.ours_idle_s:.1f}",
            *(_said(each.others_idle_s[policy]) for policy in policies),
            "" if each.optimum_ratio is None else f"{each.optimum_ratio:.2f}",
            f"{each.tiers.cost_s:.1f}",
        ]
        for name, each in found.items()
    ]
    return table(head, rows)


def _said(idle_s: float | None) -> str:
    return "never" if idle_s is None else f"{idle_s:.1f}"


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    parts = given.workload or ()
    return run(lambda: measured(given), save=given.save, part="+".join(parts), must_reach=not parts)


if __name__ == "__main__":
    sys.exit(main())
