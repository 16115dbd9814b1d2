"""Tables of `bench pool`: what was to be reached and is, and what each policy idles. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from harness.report import Report, format_number, table

from pool_parts.measured import SHARES, Mean, Reached

STRETCH = {
    "poisson_ratio_to_optimum": "≤ 1.05",
    "azure_conv_idle_per_activation_s": "≤ 20",
    "servegen_ratio_to_fixed": "",
    "two_tier_ratio": "≤ 0.45",
    "p99_wait_s": "0",
}
"""What would be better still."""
POLICIES = ("fixed N", "KEDA-like", "Knative-like", "rate oracle", "seer")


def as_targets(report: Report) -> str:
    """Return what was to be reached beside what is."""
    rows = []
    for target in report.measured():
        value, error = (
            report.figures[target.figure],
            report.figures.get(f"{target.figure}_stderr", 0.0),
        )
        rows.append(
            [
                target.figure,
                target.describe(),
                STRETCH.get(target.figure, ""),
                format_number(value),
                f"± {error:.2g}" if error else "",
                "reached" if target.is_met(value) else "MISSED",
            ]
        )
    return table(["figure", "target", "better still", "value", "standard error", ""], rows)


def as_policies(found: Mapping[str, Reached]) -> str:
    """Return what each policy idles at 1 % cold, pod-seconds per activation, and what share waits by each promise."""
    head = ["idle pod-s at 1 % cold", "self-tuning", *POLICIES, "over optimum", "two tiers"]
    rows = [
        [
            name,
            _mean(each.ours_idle_s),
            *(_said(each.others_idle_s[policy]) for policy in POLICIES),
            "" if each.optimum_ratio is None else str(each.optimum_ratio),
            str(each.tiers_cost_s),
        ]
        for name, each in found.items()
    ]
    shares = [
        [name, *(f"{each.cold_shares[share].value:.2%}" for share in SHARES)]
        for name, each in found.items()
    ]
    promised = ["share that waited, by promise", *(f"{share:.1%}" for share in SHARES)]
    return f"{table(head, rows)}\n\n{table(promised, shares)}"


def _mean(mean: Mean | None) -> str:
    return "never" if mean is None else str(mean)


def _said(idle_s: float | None) -> str:
    return "never" if idle_s is None else f"{idle_s:.1f}"
