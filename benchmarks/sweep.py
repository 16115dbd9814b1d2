"""What pool-managers cost that look after many sessions which sleep.

    ./dev bench sweep [--sessions 10000] [--seconds 130] [--save]

Starts a cluster of its own and leaves nothing running. What the figures mean: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
import uuid
from datetime import datetime

from harness import procs
from harness.cluster import Private, pool, private_cluster
from harness.machine import describe_machine, find_commit
from harness.pictures import Series
from harness.report import Report, Target
from harness.running import ROOT, CannotMeasure, add_common_options, run, say
from harness.usage import Usage, between, look

from agent_sandbox.places import TENANT
from shared import messages, subjects
from shared.bus import Bus, Write
from shared.errors import ServiceError
from shared.messages import TaskResult
from shared.record import Hold, Origin, Record
from shared.task import Open, encode_task
from shared.transitions import complete, create, release
from shared.views import ListAsk

POOL = "sweep"
SESSIONS = 10_000
TARGETS = (Target("sweep_cores", 0.05),)
WRITERS = 24
WORKERS = 2
"""Warm pods beside the sleepers: a cluster that is up."""
SETTLE_S = 5.0
LEARNED_S = 60.0
"""Longest wait until a pool-manager that was killed is back and knows all."""
QUIET_CORES = 0.1


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench sweep", description=(__doc__ or "").splitlines()[0]
    )
    add_common_options(parser)
    parser.add_argument(
        "--sessions", type=int, default=SESSIONS, help=f"sleeping sessions ({SESSIONS})"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=130,
        help="length of each measurement (130: two periods of the readings each minute)",
    )
    options = parser.parse_args()
    if options.sessions <= 0 or options.seconds <= 0:
        parser.error("--sessions, --seconds: above 0 expected")
    return options


async def measure(given: argparse.Namespace) -> tuple[Report, list[Series]]:
    """Measure without sessions, then with them."""
    report = Report("sweep", find_commit(ROOT), {}, TARGETS)
    async with private_cluster(
        (pool(POOL, stock=WORKERS, pods_max=WORKERS),), isolation=given.isolation
    ) as cluster:
        isolation = await cluster.wait_warm(POOL, WORKERS)
        empty = await used(cluster, given.seconds, "no session")
        empty_mib = manager_mib(cluster)
        began = time.monotonic()
        await put_to_sleep(cluster.admin, given.sessions)
        say(f"{given.sessions} sessions sleep, made in {time.monotonic() - began:.1f} s")
        report.add("first_read_s", await first_read_s(cluster, given.sessions))
        full = await used(cluster, given.seconds, f"{given.sessions} sessions")
        full_mib = manager_mib(cluster)
    report.add("sweep_cores", full.cores["managers"])
    report.add("sweep_cores_empty", empty.cores["managers"])
    report.add("sweep_extra_cores", full.cores["managers"] - empty.cores["managers"])
    report.add("sweep_server_cores", full.cores["nats"])
    report.add("sweep_server_cores_empty", empty.cores["nats"])
    if empty_mib is not None and full_mib is not None:
        report.add("manager_mib", full_mib)
        report.add("manager_mib_empty", empty_mib)
    report.add("elsewhere_cores", full.elsewhere)
    if full.elsewhere > QUIET_CORES:
        report.notes.append(
            f"{full.elsewhere:.2f} cores were used by other things than the cluster: the machine was not quiet"
        )
    report.machine = describe_machine(isolation)
    return report, []


async def used(cluster: Private, seconds: float, what: str) -> Usage:
    """Return what the cluster's processes use over so many seconds."""
    await asyncio.sleep(SETTLE_S)
    say(f"{what}: measuring for {seconds:g} s")
    first = look(cluster.roots())
    await asyncio.sleep(seconds)
    return between(first, look(cluster.roots()))


def manager_mib(cluster: Private) -> float | None:
    """Return the memory of one pool-manager (PSS, mean), MiB; None: it is not shown to this user."""
    try:
        sizes = [procs.pss_mib(pid) for pid in cluster.roots().managers]
    except PermissionError:
        return None
    there = [size for size in sizes if size is not None]
    return sum(there) / len(there) if there else None


# --- sessions ------------------------------------------------------------------------------------------------------


async def put_to_sleep(bus: Bus, count: int) -> None:
    """Write what a session leaves in the state streams that was created, did its first task, and was released."""
    names = iter([str(uuid.uuid4()) for _ in range(count)])

    async def write() -> None:
        for session in names:
            record, result = asleep(session)
            where = (POOL, TENANT, session)
            await bus.batch(
                [
                    Write(subjects.payload(*where), encode_task(Open(keep=True)), expected_seq=0),
                    Write(
                        subjects.stored_result(TENANT, session, session),
                        messages.encode(result),
                        expected_seq=0,
                    ),
                    Write(subjects.record(*where), messages.encode(record), expected_seq=0),
                ],
                timeout_s=10.0,
            )

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(write())


def asleep(session: str) -> tuple[Record, TaskResult]:
    """Return the record of a session that sleeps, and its first task's result."""
    now_ms = int(time.time() * 1000)
    origin = Origin(
        session=session, tenant=TENANT, pool=POOL, lane="interactive", accepted_ms=now_ms
    )
    owner = f"{POOL}-0-0"
    born = create(origin, owner=owner, node="node-1", now_ms=now_ms)
    hold = Hold(owner, born.epoch)
    done = complete(born, hold, inbox_seq=None, then="keep", now_ms=now_ms)
    result = TaskResult(
        task=session, session=session, tenant=TENANT, status="ok", kind="open", pool=POOL
    )
    return release(done, hold, position=0, now_ms=now_ms), result


# --- a start -------------------------------------------------------------------------------------------------------


async def first_read_s(cluster: Private, count: int) -> float:
    """Kill a pool-manager; return how long its successor reads before it is ready.

    Raises:
        CannotMeasure: it does not come back in time, or does not know all sessions then.
    """
    log = cluster.folder.logs / "pool-manager-1.log"
    said = log.stat().st_size
    pid = cluster.roots().managers[0]
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + LEARNED_S
    while True:
        await asyncio.sleep(0.2)
        events = _events(log.read_bytes()[said:])
        if "manager.connecting" in events and "manager.ready" in events:
            break
        if time.monotonic() > until:
            raise CannotMeasure("a pool-manager that was killed did not come back")
    known = await _listed(cluster.admin)
    if known < count:
        raise CannotMeasure(f"the pool-managers know {known} of {count} sessions")
    return events["manager.ready"] - events["manager.connecting"]


def _events(text: bytes) -> dict[str, float]:
    """Return the events of a log and their times, seconds since 1970."""
    rows = [json.loads(line) for line in text.splitlines() if line.startswith(b"{")]
    return {row["event"]: datetime.fromisoformat(row["timestamp"]).timestamp() for row in rows}


async def _listed(bus: Bus) -> int:
    """Return how many sessions the pool-managers list."""
    count, after = 0, None
    while True:
        try:
            answer = await bus.request(
                subjects.ask(TENANT, "sessions"),
                messages.encode(ListAsk(limit=500, after=after)),
                timeout_s=5.0,
            )
        except ServiceError as exc:
            raise CannotMeasure(f"the pool-managers do not list sessions: {exc}") from exc
        page = json.loads(answer.data)
        count += len(page.get("sessions", ()))
        after = page.get("next")
        if after is None:
            return count


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    return run(lambda: measure(given), save=given.save, must_reach=True)


if __name__ == "__main__":
    sys.exit(main())
