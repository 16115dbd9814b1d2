"""What warm workers cost while they wait: memory and processor time.

    ./dev bench idle [--workers 300] [--seconds 30] [--save]

Starts a cluster of its own and leaves nothing running. What the figures mean: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from harness import procs
from harness.cluster import Private, pool, private_cluster
from harness.groups import Group, Members, find_members
from harness.machine import describe_machine, find_commit
from harness.pictures import Series
from harness.report import Report, Target, table
from harness.running import ROOT, CannotMeasure, add_common_options, run, say
from harness.usage import between, look

POOL = "idle"
WORKERS = 300
TARGETS = (Target("pss_mib_300", 8), Target("cpu_cores_300", 0.15), Target("nats_cores_300", 0.15))
QUIET_CORES = 0.1
BESIDE: tuple[Group, ...] = (
    "nodes", "managers", "edges", "checkpointers", "worker_zygotes", "sandbox_zygotes", "supervisor",
)  # fmt: skip
"""What else uses processor time while workers wait."""


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench idle", description=(__doc__ or "").splitlines()[0])
    add_common_options(parser)
    parser.add_argument("--workers", type=int, default=WORKERS, help="warm workers (300)")
    parser.add_argument("--seconds", type=float, default=30, help="length of the measurement (30)")
    parser.add_argument("--settle", type=float, default=10, help="seconds of rest before it (10)")
    options = parser.parse_args()
    if options.workers <= 0 or options.seconds <= 0:
        parser.error("--workers, --seconds: above 0 expected")
    return options


async def measure(given: argparse.Namespace) -> tuple[Report, list[Series]]:
    """Let workers wait, and return what that costs."""
    count = given.workers
    report = Report("idle", find_commit(ROOT), {}, TARGETS)
    declared = pool(POOL, stock=count, pods_max=count)
    async with private_cluster((declared,), isolation=given.isolation) as cluster:
        isolation = await cluster.wait_warm(POOL, count)
        say(f"{count} workers are warm; {given.settle:g} s of rest")
        await asyncio.sleep(given.settle)
        say(f"measuring for {given.seconds:g} s")
        await measure_cpu(report, cluster, count, given.seconds)
        say("measuring memory")
        await asyncio.to_thread(measure_memory, report, cluster, count)
    report.machine = describe_machine(isolation)
    return report, []


async def measure_cpu(report: Report, cluster: Private, count: int, seconds: float) -> None:
    """Enter the processor time of each group.

    Raises:
        CannotMeasure: pods came or went meanwhile.
    """
    roots = cluster.roots()
    first = look(roots)
    pids = [*first.members.workers, *first.members.sandboxes]
    used_s = procs.cpu_s(pids)
    await asyncio.sleep(seconds)
    used_s = procs.cpu_s(pids) - used_s
    last = look(roots)
    if {*last.members.workers, *last.members.sandboxes} != set(pids):
        raise CannotMeasure("pods came or went while it was measured")
    usage = between(first, last)
    report.add(f"cpu_cores_{count}", used_s / usage.seconds)
    report.add(f"nats_cores_{count}", usage.cores["nats"])
    for group in BESIDE:
        report.add(f"{group}_cores_{count}", usage.cores[group])
    report.add("elsewhere_cores", usage.elsewhere)
    if usage.elsewhere > QUIET_CORES:
        report.notes.append(
            f"{usage.elsewhere:.2f} cores were used by other things than the cluster: the machine was not quiet"
        )


def measure_memory(report: Report, cluster: Private, count: int) -> None:
    """Enter the memory of a pod: all its processes, of each shared page their share; the zygotes' own is not theirs."""
    members = find_members(cluster.roots(), procs.scan())
    try:
        workers, sandboxes = (_sizes(members.workers), _sizes(members.sandboxes))
        zygotes, checkpointers = _sizes(list(members.zygotes)), _sizes(members.checkpointers)
    except PermissionError:
        report.notes.append(
            "memory was not measured: that of confined processes is shown to root only"
        )
        return
    report.add(f"pss_mib_{count}", (sum(workers) + sum(sandboxes)) / count)
    report.add(f"pss_worker_mib_{count}", sum(workers) / count)
    report.add(f"pss_sandbox_mib_{count}", sum(sandboxes) / count)
    report.add("pss_zygotes_mib", sum(zygotes))
    report.add("pss_checkpointers_mib", sum(checkpointers))
    report.sections.append(_memory_table(members, workers, sandboxes))


def _sizes(pids: list[int]) -> list[float]:
    """Return the proportional set size of each process that is still there, MiB."""
    return [size for pid in pids if (size := procs.pss_mib(pid)) is not None]


def _memory_table(members: Members, workers: list[float], sandboxes: list[float]) -> str:
    rows = []
    for name, pids, sizes in (
        ("worker", members.workers, workers),
        ("sandbox", members.sandboxes, sandboxes),
    ):
        if sizes:
            rows.append(
                [
                    name,
                    str(len(pids)),
                    f"{min(sizes):.2f}",
                    f"{sum(sizes) / len(sizes):.2f}",
                    f"{max(sizes):.2f}",
                ]
            )
    return "memory (PSS), MiB\n" + table(["process", "number", "least", "mean", "most"], rows)


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    return run(lambda: measure(given), save=given.save)


if __name__ == "__main__":
    sys.exit(main())
