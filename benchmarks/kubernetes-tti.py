"""Time to interactive on Kubernetes: from the call that publishes a task to the first instruction of user code in a pod.

    ./dev bench kubernetes-tti [--only PART …] [--calls 60] [--stock 60] [--save]

Runs on the system of the kubeconfig's context, with pools of its own beside those that are there; they are taken back at
the end. `$AGENT_SANDBOX_AUDIT_LOG` names the API server's audit log, for the writes. What the figures mean:
benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from harness.api import audit_log
from harness.machine import describe_machine, find_commit
from harness.pictures import Picture
from harness.report import Report, Target
from harness.running import ROOT, add_common_options, run, say
from harness.site import Site, open_site
from kubernetes_parts import claims, demand
from kubernetes_parts.claims import Measured

from shared.pools import PoolSpec

RATES = (1.0, 5.0, 10.0)
BURST = 50
STILL = 16
PARTS = ("rates", "burst", "still", "demand-runc", "demand-gvisor")
TARGETS = (
    Target("warm_p50_ms_1", 10),
    Target("warm_p99_ms_1", 50),
    Target("warm_p50_ms_5", 50),
    Target("warm_p99_ms_5", 300),
    Target("warm_p50_ms_10", 100),
    Target("warm_p99_ms_10", 500),
    Target("burst50_all_started_s", 0.5),
    Target("api_writes_per_claim_sync", 0),
)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench kubernetes-tti", description=(__doc__ or "").splitlines()[0]
    )
    add_common_options(parser)
    parser.set_defaults(isolation="oci")
    parser.add_argument(
        "--context", default=None, help="context of the kubeconfig (its current one)"
    )
    parser.add_argument("--calls", type=int, default=60, help="claims at each rate (60)")
    parser.add_argument("--stock", type=int, default=60, help="warm pods (60)")
    parser.add_argument(
        "--starts", type=int, default=15, help="starts on demand of each class (15)"
    )
    parser.add_argument(
        "--only", action="append", choices=PARTS, metavar="PART", help=", ".join(PARTS)
    )
    options = parser.parse_args()
    if min(options.calls, options.stock, options.starts) < 1:
        parser.error("--calls, --stock, --starts: at least 1 expected")
    return options


def pools_of(given: argparse.Namespace, chosen: Sequence[str]) -> list[PoolSpec]:
    """Return the pools that the chosen parts need."""
    wanted = {
        ("rates", "burst"): PoolSpec(
            name="bench-warm",
            stock=given.stock,
            pods_max=4 * given.stock,
            isolation=given.isolation,
        ),
        ("still",): PoolSpec(
            name="bench-still", stock=STILL, pods_max=STILL, isolation=given.isolation
        ),
        ("demand-runc",): PoolSpec(name="bench-runc", stock=0, isolation="oci"),
        ("demand-gvisor",): PoolSpec(name="bench-gvisor", stock=0, isolation="gvisor"),
    }
    return [pool for parts, pool in wanted.items() if set(parts) & set(chosen)]


async def measure(given: argparse.Namespace) -> tuple[Report, Sequence[Picture]]:
    """Run the chosen parts, each on pools of its own: nothing of the others' is warm meanwhile."""
    chosen = [part for part in PARTS if given.only is None or part in given.only]
    report = Report("kubernetes-tti", find_commit(ROOT), {}, TARGETS)
    series: list[Picture] = []
    groups = (("rates", "burst"), ("still",), ("demand-runc", "demand-gvisor"))
    for group in groups:
        parts = [part for part in group if part in chosen]
        if not parts:
            continue
        async with open_site(pools_of(given, parts), context=given.context) as site:
            one = Measured(site, report, audit_log(), await _who(site))
            for part in parts:
                say(f"part {part}")
                await _measure_part(one, part, given)
            claims.enter_writes(one)
            series += one.series
            report.machine = describe_machine(given.isolation) | await _nodes(site)
    return report, series


async def _measure_part(one: Measured, part: str, given: argparse.Namespace) -> None:
    if part == "rates":
        for rate in RATES:
            await claims.at_rate(one, "bench-warm", given.stock, rate, given.calls)
    elif part == "burst":
        await claims.burst(one, "bench-warm", given.stock, BURST)
    elif part == "still":
        await claims.still(one, "bench-still", STILL)
    else:
        runtime = part.removeprefix("demand-")
        await demand.on_demand(one, f"bench-{runtime}", runtime, given.starts)


async def _who(site: Site) -> str:
    """Return the user as whom we speak to the API server."""
    said = await asyncio.to_thread(site.kubectl.run, "auth", "whoami", "-o", "json")
    return str(json.loads(said)["status"]["userInfo"]["username"])


async def _nodes(site: Site) -> dict[str, object]:
    nodes = await asyncio.to_thread(site.kubectl.list, "nodes")
    versions = sorted({node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes})
    return {"nodes": len(nodes), "kubernetes": "+".join(versions)}


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    part = "" if given.only is None else "+".join(given.only)
    return run(lambda: measure(given), save=given.save, part=part)


if __name__ == "__main__":
    sys.exit(main())
