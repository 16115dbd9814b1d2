"""A file of gigabytes into a session and out of it, by object reference: how fast, and at whose memory.

    ./dev bench objects [--gib 2] [--save]

Starts a cluster of its own and leaves nothing running. What the figures mean: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness import procs
from harness.cluster import Private, private_cluster
from harness.groups import find_members
from harness.machine import describe_machine, find_commit
from harness.pictures import Picture
from harness.report import Report, Target
from harness.running import ROOT, CannotMeasure, add_common_options, run, say
from harness.timelines import Field, Timeline

from agent_sandbox import Client, ClientOptions, Session
from shared.pools import PodLimits, PoolSpec
from shared.task import InputFile, WriteFile

POOL = "objects"
MIB = 1 << 20
GROWTH_MIB_MAX = 64
TARGETS = (
    Target("wrong", 0),
    Target("client_growth_mib", GROWTH_MIB_MAX),
    Target("worker_growth_mib", GROWTH_MIB_MAX),
    Target("runner_growth_mib", GROWTH_MIB_MAX),
)
SAY_EVERY_S = 5.0
POINT_EVERY_S = 0.5


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench objects", description=(__doc__ or "").split("\n")[0]
    )
    add_common_options(parser)
    parser.add_argument("--gib", type=float, default=2.0, help="size of the file, GiB (2)")
    options = parser.parse_args()
    if not 0 < options.gib <= 2:
        parser.error(
            "--gib: above 0 and at most 2 expected: the store holds 6, three servers on this disk"
        )
    return options


class Source:
    """Bytes that no compression and no cache could shorten, and their digest."""

    def __init__(self, size_mib: int) -> None:
        """Make a block; each further one differs from it in its first bytes."""
        self._block = os.urandom(MIB)
        self._size_mib = size_mib
        self.digest = hashlib.sha256()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield a mebibyte at a time."""
        for number in range(self._size_mib):
            piece = number.to_bytes(8, "big") + self._block[8:]
            self.digest.update(piece)
            yield piece


class Sink:
    """Takes bytes and keeps their digest alone."""

    def __init__(self) -> None:
        """Have taken none."""
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Take some."""
        self.digest.update(data)
        return len(data)


class Pace:
    """How far a step is, told to people and kept for the picture."""

    def __init__(self, began: float, size_bytes: int) -> None:
        """Begin."""
        self._began, self._size_bytes = began, size_bytes
        self._said = self._last_s = 0.0
        self._last_bytes = 0
        self.points: list[tuple[float, float]] = []
        """(seconds since the begin of all, MiB/s since the point before)."""

    def move(self, step: str, done_bytes: int) -> None:
        """Note how far it is."""
        now = time.monotonic() - self._began
        if not self._last_s or done_bytes < self._last_bytes:
            self._last_s, self._last_bytes = now, done_bytes
        if now - self._last_s >= POINT_EVERY_S:
            speed = (done_bytes - self._last_bytes) / MIB / (now - self._last_s)
            self.points.append((now, speed))
            self._last_s, self._last_bytes = now, done_bytes
        if now - self._said >= SAY_EVERY_S:
            self._said = now
            say(f"{step}: {done_bytes / MIB:,.0f} of {self._size_bytes / MIB:,.0f} MiB")


class Memory(NamedTuple):
    """Whose memory is watched, and what it was before, MiB."""

    pids: dict[str, int]
    before: dict[str, float]

    @staticmethod
    def begin(pids: dict[str, int]) -> Memory:
        """Let the peaks begin anew."""
        for pid in pids.values():
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        return Memory(pids, {name: _status_mib(pid, "VmRSS") for name, pid in pids.items()})

    def growth(self) -> dict[str, float]:
        """Return the peak of each above what it was before, MiB."""
        return {
            name: _status_mib(pid, "VmHWM") - self.before[name] for name, pid in self.pids.items()
        }


def _status_mib(pid: int, word: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(word + ":"):
            return int(line.split()[1]) / 1024
    raise CannotMeasure(f"process {pid} has no {word}")


async def measure(given: argparse.Namespace) -> tuple[Report, Sequence[Picture]]:
    """Carry the file through, and return how that went."""
    size_mib = max(1, round(given.gib * 1024))
    report = Report("objects", find_commit(ROOT), {}, TARGETS)
    room = PodLimits(disk_mib=size_mib + 64)
    declared = PoolSpec(name=POOL, stock=1, pods_max=1, limits=room)
    async with private_cluster((declared,), isolation=given.isolation) as cluster:
        report.machine = describe_machine(await cluster.wait_warm(POOL, 1))
        async with (
            Client(ClientOptions(state=cluster.folder.path)) as client,
            await client.create_session(pool=POOL) as session,
        ):
            memory = Memory.begin(_processes(cluster))
            drawn = await carry(report, client, session, size_mib)
            for name, mib in memory.growth().items():
                report.add(f"{name}_growth_mib", mib)
    return report, drawn


def _processes(cluster: Private) -> dict[str, int]:
    """Return the pids of client, worker and runner: the pool has one pod."""
    members = find_members(cluster.roots(), procs.scan())
    if len(members.workers) != 1 or len(members.runners) != 1:
        raise CannotMeasure(f"one pod expected, found workers {members.workers}")
    return {"client": os.getpid(), "worker": members.workers[0], "runner": members.runners[0]}


async def carry(
    report: Report, client: Client, session: Session, size_mib: int
) -> Sequence[Picture]:
    """Carry the file in and out; enter speeds and digests."""
    size_bytes = size_mib * MIB
    began = time.monotonic()
    source, sink, pace = Source(size_mib), Sink(), Pace(began, size_bytes)
    at: dict[str, float] = {}

    def note(step: str, since: float) -> float:
        report.add(f"{step}_mib_s", size_mib / (time.monotonic() - since))
        at[step] = time.monotonic() - began
        say(f"{step}: {report.figures[f'{step}_mib_s']:g} MiB/s")
        return time.monotonic()

    reference = await client.objects.put(
        source.pieces(), on_progress=lambda done, _: pace.move("put", done)
    )
    now = note("put", began)
    placed = WriteFile(files=(InputFile(path="big", object=reference),))
    task = await client.publish_next(session.id, placed, {})
    async for event in task.events():
        if (done := getattr(event, "done_bytes", None)) is not None:
            pace.move("place", done)
    (await task.result()).check()
    note("place", now)
    report.add("in_mib_s", size_mib / (time.monotonic() - began))
    now = time.monotonic()
    await client.objects.drop(reference.id)
    report.add("drop_s", time.monotonic() - now)
    inside = await session.exec(["sha256sum", "big"])
    now = time.monotonic()
    await session.download("big", sink, on_progress=lambda done, _: pace.move("download", done))
    note("out", now)
    wrong = [
        digest != source.digest.hexdigest()
        for digest in (inside.stdout.split()[0], sink.digest.hexdigest())
    ]
    report.add("wrong", sum(wrong))
    report.add("size_mib", size_mib)
    field = Field(f"{size_mib:,} MiB through the object store, MiB/s", {"speed": pace.points})
    ends = {step: [when] for step, when in at.items()}
    return [Timeline(time.monotonic() - began, [field], ends)]


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    return run(lambda: measure(given), save=given.save, must_reach=True)


if __name__ == "__main__":
    sys.exit(main())
