"""How long a hibernated session's next task waits for its first instruction, by size of the workspace, beside a warm session's.

    ./dev bench resume [--size 1mb …] [--rounds 20] [--save]

A session makes its workspace and hibernates. Each round publishes a task to it: a warm worker takes the session, its files
come back, the task begins. The next task finds the session's own pod. Then it hibernates again. What the figures mean:
benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.cluster import Private, private_cluster
from harness.machine import describe_machine, find_commit
from harness.pictures import Picture
from harness.report import Report, table
from harness.running import ROOT, CannotMeasure, add_common_options, run, say
from harness.stats import percentile
from recovery_parts.sizes import COUNT, FILES, SIZES

from agent_sandbox import Client, Session
from shared.messages import TaskResult
from shared.pools import PodLimits, PoolSpec

POOL = PoolSpec(
    name="resume", stock=4, pods_max=8, limits=PodLimits(disk_mib=8192, memory_mib=1024)
)
DEFAULT = ("1mb", "100mb", "28k")
FIRST = "import time; print(time.time_ns())"
TASK_S = 900.0
ASLEEP_S = 1.0
"""Longer than a session that was just let go is left to its former owner, which looks into its inbox once more."""


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench resume", description=(__doc__ or "").splitlines()[0]
    )
    add_common_options(parser)
    parser.add_argument("--rounds", type=int, default=20, help="resumes of each size (20)")
    parser.add_argument(
        "--size", action="append", choices=tuple(SIZES), help="workspaces (1mb, 100mb, 28k)"
    )
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: at least 1 expected")
    return options


@dataclass
class Times:
    """Of one size, a value for each round, seconds."""

    resume: list[float] = field(default_factory=list)
    """Task published to the hibernated session … its first instruction."""
    warm: list[float] = field(default_factory=list)
    """The same of the next task, whose session has a pod."""
    restore: list[float] = field(default_factory=list)
    """Task accepted … the files are back; part of `resume`."""


async def measure(given: argparse.Namespace) -> tuple[Report, Sequence[Picture]]:
    """Measure each size in one cluster."""
    report, rows = Report("resume", find_commit(ROOT), {}, ()), []
    async with private_cluster((POOL,), isolation=given.isolation, nodes=2) as cluster:
        report.machine = describe_machine(await cluster.wait_warm(POOL.name, POOL.stock))
        async with cluster.client() as client:
            for name in given.size or DEFAULT:
                times = await _measure_size(cluster, client, name, given.rounds)
                row = [name]
                for what, values in vars(times).items():
                    for rank in (50, 95):
                        value = percentile(values, rank)
                        report.add(f"{what}_{name}_p{rank}_s", value)
                        row.append(f"{value:.3g}")
                rows.append(row)
    head = [f"{what} p{rank}" for what in vars(Times()) for rank in (50, 95)]
    report.sections.append("published … first instruction, seconds\n" + table(["", *head], rows))
    return report, ()


async def _measure_size(cluster: Private, client: Client, name: str, rounds: int) -> Times:
    size, times = SIZES[name], Times()
    say(f"{name}: making the workspace")
    session = await client.create_session(pool=POOL.name)
    await _python(session, FILES.format(files=size.files, bytes=size.bytes))
    expected = (await _python(session, COUNT)).stdout.text
    for _ in range(rounds):
        await session.hibernate(wait_s=TASK_S)
        await cluster.wait_warm(POOL.name, POOL.stock)
        await asyncio.sleep(ASLEEP_S)
        begun_ns = time.time_ns()
        first = await _python(session, FIRST)
        times.resume.append((int(first.stdout.text) - begun_ns) / 1e9)
        if not first.timing.restored_ms:
            raise CannotMeasure(f"{name}: the session had not given its pod back")
        times.restore.append(first.timing.restored_ms / 1000 - begun_ns / 1e9)
        begun_ns = time.time_ns()
        after = await _python(session, FIRST)
        times.warm.append((int(after.stdout.text) - begun_ns) / 1e9)
    if (found := (await _python(session, COUNT)).stdout.text) != expected:
        raise CannotMeasure(f"{name}: {expected.strip()} became {found.strip()}")
    await session.close()
    say(f"{name}: {rounds} rounds, resumed in {percentile(times.resume, 50):.3f} s (p50)")
    return times


async def _python(session: Session, code: str) -> TaskResult:
    async with asyncio.timeout(TASK_S):
        result = await session.python(code, timeout_s=TASK_S)
    return result.check().raw


def main() -> int:
    """Measure; return the exit code."""
    given = parse()
    return run(lambda: measure(given), save=given.save, part="+".join(given.size or ()))


if __name__ == "__main__":
    sys.exit(main())
