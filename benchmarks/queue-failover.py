"""What callers notice when the server that leads a queue and state shard is killed, and when it hangs.

    ./dev bench queue-failover [--kills 3] [--hangs 3] [--seconds 20] [--rate 15] [--sessions 20] [--save]

It starts a cluster of its own and leaves nothing running. What the figures mean: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter

from failover_parts.faults import Fault, hang, kill, whole
from failover_parts.gaps import late_s, longest_gap_s
from failover_parts.load import Load
from harness.cluster import Private, pool, private_cluster
from harness.load import without_pauses
from harness.machine import describe_machine, find_commit
from harness.pictures import Series
from harness.report import Report, Target, table
from harness.running import ROOT, CannotMeasure, add_common_options, run, say
from harness.stats import median, percentile

TARGETS = (
    Target("puback_gap_s_kill", 1),
    Target("puback_gap_s_hang", 2),
    Target("start_gap_s_kill", 1),
    Target("start_gap_s_hang", 2),
    Target("bound_late_s", 10),
    Target("errors", 0),
)
POOL = "default"
SESSION_EVERY_S = 2.0
WARM_UP_S = 5.0
SERVERS = ("n1", "n2", "n3")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench queue-failover", description=(__doc__ or "").splitlines()[0]
    )
    add_common_options(parser)
    parser.add_argument("--kills", type=int, default=3, help="servers that are killed (3)")
    parser.add_argument("--hangs", type=int, default=3, help="servers that are stopped (3)")
    parser.add_argument("--hang-seconds", type=float, default=12, help="how long each hangs (12)")
    parser.add_argument(
        "--seconds", type=float, default=20, help="time that is watched after each fault (20)"
    )
    parser.add_argument("--rate", type=float, default=15, help="one-shots each second (15)")
    parser.add_argument("--sessions", type=int, default=20, help="sessions with steady tasks (20)")
    parser.add_argument("--stock", type=int, default=32, help="warm workers (32)")
    options = parser.parse_args()
    if options.kills < 1 or options.hangs < 1:
        parser.error("--kills, --hangs: at least 1 expected")
    return options


async def measure(given: argparse.Namespace) -> tuple[Report, list[Series]]:
    """Run load and faults; return report and pictures."""
    report = Report("queue-failover", find_commit(ROOT), {}, TARGETS)
    pools = (pool(POOL, stock=given.stock, pods_max=4 * given.stock + given.sessions),)
    async with (
        private_cluster(pools, isolation=given.isolation) as cluster,
        cluster.client() as client,
    ):
        isolation = await cluster.wait_warm(POOL, given.stock)
        sessions = [await client.create_session(pool=POOL) for _ in range(given.sessions)]
        load = Load(client, POOL)
        async with without_pauses(), asyncio.TaskGroup() as group:
            group.create_task(load.publish_one_shots(given.rate))
            for session in sessions:
                await asyncio.sleep(SESSION_EVERY_S / given.sessions)
                group.create_task(load.keep_busy(session, SESSION_EVERY_S))
            await asyncio.sleep(WARM_UP_S)
            undisturbed_s = time.time()
            faults = []
            for number, kind in enumerate(["kill"] * given.kills + ["hang"] * given.hangs):
                await whole(cluster, pools)
                faults.append(await _fault(cluster, kind, SERVERS[number % 3], given))
            load.ending.set()
    report.machine = describe_machine(isolation)
    first_fault_s = faults[0].at_s
    enter(report, load, faults, (undisturbed_s, first_fault_s))
    return report, draw(load, faults)


async def _fault(cluster: Private, kind: str, server: str, given: argparse.Namespace) -> Fault:
    if kind == "kill":
        return await kill(cluster, server, given.seconds)
    return await hang(cluster, server, given.hang_seconds, given.seconds)


def enter(
    report: Report, load: Load, faults: list[Fault], undisturbed: tuple[float, float]
) -> None:
    """Enter the figures.

    Raises:
        CannotMeasure: no session's task was done before the first fault.
    """
    acked = [shot.acked_s for shot in load.shots if shot.acked_s]
    started = [shot.started_s for shot in load.shots if shot.started_s]
    begin, end = undisturbed
    quiet = [t.done_s - t.due_s for t in load.nexts if t.done_s and begin <= t.due_s < end - 1]
    if not quiet:
        raise CannotMeasure("no session's task was done before the first fault")
    usual_s = median(quiet)
    late = late_s([t.done_s - t.due_s for t in load.nexts if t.done_s], usual_s)
    waits = [
        (shot.called_s, shot.started_s - shot.called_s) for shot in load.shots if shot.started_s
    ]
    rows = []
    gaps: dict[str, list[float]] = {}
    for fault in faults:
        found = {
            "puback": longest_gap_s(acked, fault.at_s, fault.until_s),
            "start": longest_gap_s(started, fault.at_s, fault.until_s),
        }
        for name, gap_s in found.items():
            gaps.setdefault(f"{name}_gap_s_{fault.kind}", []).append(gap_s)
        hit = [wait for called, wait in waits if fault.at_s - 1 <= called <= fault.until_s]
        bound = late_s(
            [t.done_s - t.due_s for t in load.nexts
             if t.done_s and fault.at_s - SESSION_EVERY_S <= t.due_s <= fault.until_s],
            usual_s,
        )  # fmt: skip
        rows.append([
            f"{fault.kind} {fault.server}", f"{found['puback']:.2f}", f"{found['start']:.2f}",
            f"{sum(wait > 1 for wait in hit)} of {len(hit)}", f"{max(hit, default=0):.2f}",
            f"{max(bound, default=0):.2f}",
        ])  # fmt: skip
    for target in TARGETS[:4]:
        report.add(target.figure, max(gaps[target.figure]))
    report.add("bound_late_s", max(late))
    errors = load.errors()
    report.add("errors", len(errors))
    report.add("bound_late_p99_s", percentile(late, 99))
    report.add("bound_usual_ms", usual_s * 1000)
    report.add("one_shots", len(load.shots))
    report.add("session_tasks", len(load.nexts))
    report.add("one_shots_over_1s", sum(wait > 1 for _, wait in waits))
    report.add("one_shot_slowest_s", max(wait for _, wait in waits))
    report.sections.append(
        "seconds; one-shots: call to first instruction\n"
        + table(
            ["fault", "PubAck gap", "start gap", "one-shots > 1 s", "slowest", "session late"], rows
        )
    )
    for text, count in Counter(errors).most_common(5):
        report.notes.append(f"{count} times: {text}")


def draw(load: Load, faults: list[Fault]) -> list[Series]:
    """Return what is drawn over time, with the faults in it."""
    first_s = load.shots[0].called_s
    marks = [(f"{fault.kind} {fault.server}", fault.at_s - first_s) for fault in faults]
    shown = {
        "one-shots: call to PubAck": [
            (shot.called_s, shot.acked_s) for shot in load.shots if shot.acked_s
        ],
        "one-shots: call to first instruction": [
            (shot.called_s, shot.started_s) for shot in load.shots if shot.started_s
        ],
        "tasks of open sessions: due to result": [
            (task.due_s, task.done_s) for task in load.nexts if task.done_s
        ],
    }
    return [
        Series(
            title,
            [(end - begin) * 1000 for begin, end in spans],
            [begin - first_s for begin, _ in spans],
            marks=marks,
        )
        for title, spans in shown.items()
    ]


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    say(f"{given.kills} kills, {given.hangs} hangs")
    return run(lambda: measure(given), save=given.save, must_reach=True)


if __name__ == "__main__":
    sys.exit(main())
