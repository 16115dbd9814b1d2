"""What waits how long: interactive tasks beside a backlog of batch, batch beside lasting interactive load, recoveries.

    ./dev bench priority [--seconds 20] [--workers 8] [--task-ms 200] [--save]

Starts a cluster of its own and leaves nothing running. What the figures mean: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from contextlib import suppress

from harness import procs
from harness.cluster import Private, pool, private_cluster
from harness.groups import find_members
from harness.machine import describe_machine, find_commit
from harness.pictures import Series
from harness.report import Report, Target
from harness.running import ROOT, CannotMeasure, add_common_options, run, say
from harness.stats import percentile, summarize
from priority_parts.crowd import Crowd, Shot
from priority_parts.watch import passed_over, recovered, watch

POOL = "priority"
EVERY = 10
"""k of the pool."""
TARGETS = (
    Target("interactive_p99_over_task_ms", 50),
    Target("batch_share", 1 / EVERY, at_least=True),
    Target("recovery_first", 1, at_least=True),
)
SPREAD = 0.7
"""The interactive tasks come at random in this part of the time in which the backlog is worked off."""
TURNAROUND_S = 0.1
"""About what a worker's end and its successor's start take, for that estimate only."""
SETTLE_S = 2.0
STARTS_MIN = 20 * EVERY
"""A share of one in k of fewer starts depends on where one begins to count."""
LONGER_S = 120.0
"""A slow machine gets so much more time for them."""
ALL_DONE_S = 240.0
KILLS = 4
"""Workers killed at once."""
ROUNDS, ROUNDS_MAX = 3, 12
RECOVERIES_MIN = 6
"""Killed at random, some workers have no session; then there are more rounds."""
BETWEEN_KILLS_S = 3.0
SEED = 1


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench priority", description=(__doc__ or "").splitlines()[0]
    )
    add_common_options(parser)
    parser.add_argument("--workers", type=int, default=8, help="workers at once (8)")
    parser.add_argument("--task-ms", type=float, default=200, help="length of each task (200)")
    parser.add_argument("--batch", type=int, default=400, help="backlog of batch tasks (400)")
    parser.add_argument("--interactive", type=int, default=30, help="interactive tasks (30)")
    parser.add_argument(
        "--seconds", type=float, default=20, help="length of the part with lasting load (20)"
    )
    options = parser.parse_args()
    for name in ("workers", "task_ms", "batch", "interactive", "seconds"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')}: above 0 expected")
    return options


async def measure(given: argparse.Namespace) -> tuple[Report, list[Series]]:
    """Run the three parts on one cluster."""
    report = Report("priority", find_commit(ROOT), {}, TARGETS)
    declared = pool(POOL, stock=given.workers, pods_max=given.workers)
    async with (
        private_cluster((declared,), isolation=given.isolation) as cluster,
        cluster.client() as client,
    ):
        isolation = await cluster.wait_warm(POOL, given.workers)
        crowd = Crowd(client.bus, POOL, given.task_ms / 1000)
        await crowd.listen()
        series = await beside_a_backlog(report, crowd, given)
        await lasting_load(report, crowd, given)
        await recoveries(report, cluster, crowd, given)
    report.machine = describe_machine(isolation)
    return report, [series]


async def beside_a_backlog(report: Report, crowd: Crowd, given: argparse.Namespace) -> Series:
    """Enter how long interactive tasks wait that come at random while a backlog of batch is worked off."""
    say(f"{given.batch} batch tasks at once, {given.interactive} interactive ones at random")
    draws = random.Random(SEED)
    took_s = given.batch / given.workers * (given.task_ms / 1000 + TURNAROUND_S)
    due = sorted(draws.uniform(0, took_s * SPREAD) for _ in range(given.interactive))
    backlog = await crowd.publish_many("batch", given.batch)
    await asyncio.sleep(SETTLE_S)
    began = time.monotonic()
    shots: list[Shot] = []
    for at_s in due:
        await asyncio.sleep(max(0.0, began + at_s - time.monotonic()))
        shots.append(await crowd.publish("interactive"))
    left = crowd.open["batch"]
    await crowd.finished(shots, within_s=ALL_DONE_S)
    await crowd.finished(backlog, within_s=ALL_DONE_S)
    waits = [shot.tti_ms for shot in shots]
    found = summarize(waits)
    report.add("interactive_p99_over_task_ms", found.p99 - given.task_ms)
    report.add("interactive_wait_p50_ms", found.p50)
    report.add("interactive_wait_p90_ms", found.p90)
    report.add("interactive_wait_p99_ms", found.p99)
    report.add("interactive_lost", sum(shot.user_ns is None for shot in shots))
    report.add("batch_wait_p50_ms", percentile([shot.tti_ms for shot in backlog], 50))
    rate = given.batch / ((max(s.heard_ns for s in backlog) - backlog[0].called_ns) / 1e9)
    report.add("starts_per_s", rate)
    if left == 0:
        report.notes.append("the backlog was gone before the last interactive task came")
    first_ns = shots[0].called_ns
    bound = given.task_ms + TARGETS[0].reach
    return Series(
        f"interactive beside {given.batch} batch, tasks of {given.task_ms:g} ms",
        waits,
        [(shot.called_ns - first_ns) / 1e9 for shot in shots],
        [(f"p99 ≤ task + {TARGETS[0].reach:g}", bound)],
    )


async def lasting_load(report: Report, crowd: Crowd, given: argparse.Namespace) -> None:
    """Enter the share of batch among the starts while both classes always wait."""
    say(f"both classes always wait, for {given.seconds:g} s")
    seen, before = set(crowd.shots), crowd.finished_count
    waiting = 3 * given.workers
    began_ns = time.time_ns() + int(SETTLE_S * 1e9)
    until = time.monotonic() + SETTLE_S + given.seconds
    while (left_s := until - time.monotonic()) > 0 or (
        crowd.finished_count - before < STARTS_MIN and left_s > -LONGER_S
    ):
        for klass in ("batch", "interactive"):
            await crowd.top_up(klass, waiting + given.workers)
        await asyncio.sleep(0.05)
    ended_ns = time.time_ns()
    shots = [shot for task, shot in crowd.shots.items() if task not in seen]
    await crowd.finished(shots, within_s=ALL_DONE_S)
    starts = [s for s in shots if s.user_ns is not None and began_ns <= s.user_ns <= ended_ns]
    if not starts:
        raise CannotMeasure("no task was started under lasting load")
    report.add("batch_share", sum(s.klass == "batch" for s in starts) / len(starts))
    report.add("lasting_starts", len(starts))


async def recoveries(
    report: Report, cluster: Private, crowd: Crowd, given: argparse.Namespace
) -> None:
    """Enter the share of sessions that lost their worker and were not passed over by a worker that came free."""
    say(f"several times {KILLS} workers killed while both classes wait")
    draws = random.Random(SEED)
    waiting = 3 * given.workers
    shots: list[Shot] = []
    async with watch(cluster.admin, POOL) as heard:
        await asyncio.sleep(SETTLE_S)
        for number in range(ROUNDS_MAX):
            if number >= ROUNDS and len(heard.tokens) >= RECOVERIES_MIN:
                break
            for klass in ("batch", "interactive"):
                shots += await crowd.publish_many(klass, max(0, 2 * waiting - crowd.open[klass]))
            await asyncio.sleep(SETTLE_S)
            members = find_members(cluster.roots(), procs.scan())
            for pid in draws.sample(members.workers, min(KILLS, len(members.workers))):
                with suppress(ProcessLookupError):  # its task was done
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(BETWEEN_KILLS_S)
        await crowd.finished(shots, within_s=ALL_DONE_S)
    took = recovered(heard)
    if not took:
        raise CannotMeasure("no killed worker had a session")
    report.add("recovery_first", 1 - len(passed_over(heard)) / len(heard.tokens))
    report.add("recoveries", len(heard.tokens))
    report.add("recovery_token_to_claim_max_ms", max(took.values()) * 1000)


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    return run(lambda: measure(given), save=given.save, must_reach=True)


if __name__ == "__main__":
    sys.exit(main())
