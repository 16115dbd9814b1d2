"""The gateway beside the straight way: create to first output, and what streams cost.

    ./dev bench gateway [--seconds 20] [--streams 200] [--save]

Starts a cluster of its own and leaves nothing running. What the figures mean: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence

from gateway_parts.readers import Reader, open_reader
from harness import procs
from harness.cluster import Private, private_cluster
from harness.machine import describe_machine, find_commit
from harness.pictures import Picture, Series
from harness.report import Report, Target
from harness.running import ROOT, CannotMeasure, add_common_options, run, say
from harness.stats import percentile

from agent_sandbox import Client, ClientOptions, Output
from agent_sandbox.embedded.table import read_table
from shared.pools import PoolSpec

POOL = "default"
STOCK = 16
WARM_UP = 10
"""Creates each way that are not counted."""
LINES = 40
LINE_S = 0.1
WRITE_TIMES = (
    "import time\n"
    "time.sleep(8)\n"
    f"for n in range({LINES}):\n"
    f"    print(time.time_ns(), n, flush=True); time.sleep({LINE_S})\n"
)
SLOW_BYTES = 2_000_000
WRITE_MUCH = f"import time\ntime.sleep(8)\nprint('x' * {SLOW_BYTES})\ntime.sleep(5)\n"
SETTLE_S = 3.0
TARGETS = (
    Target("wrong", 0),
    Target("stream_mib", 0.25),
    Target("slow_stream_mib", 1.0),
)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench gateway", description=(__doc__ or "").split("\n")[0]
    )
    add_common_options(parser)
    parser.add_argument("--seconds", type=float, default=20, help="for the creates (20)")
    parser.add_argument("--streams", type=int, default=200, help="open at once (200)")
    options = parser.parse_args()
    if options.seconds <= 0:
        parser.error("--seconds: above 0 expected")
    if not 0 < options.streams <= 250:
        parser.error("--streams: 1 to 250 expected: a tenant may have 256 at a gateway")
    return options


class Times:
    """Samples, and when each was begun."""

    def __init__(self) -> None:
        """Have none."""
        self.values_ms: list[float] = []
        self.at_s: list[float] = []

    def add(self, value_ms: float, at: float) -> None:
        """Take one; `at` by the monotonic clock."""
        self.values_ms.append(value_ms)
        self.at_s.append(at)

    def series(self, title: str) -> Series:
        """Return a picture of them."""
        first = min(self.at_s)
        return Series(title, self.values_ms, [at - first for at in self.at_s])


async def first_output_ms(client: Client) -> float:
    """Create a one-shot; return how long its first output took to come from the call, milliseconds.

    Raises:
        CannotMeasure: it wrote nothing.
    """
    began = time.perf_counter()
    async with await client.start(code="print(1)") as task:
        took: float | None = None
        async for event in task.events():
            if isinstance(event, Output) and took is None:
                took = (time.perf_counter() - began) * 1000
        if took is None:
            raise CannotMeasure(f"task {task.task_id} wrote nothing: {(await task.result()).raw}")
        return took


async def measure_creates(direct: Client, through: Client, seconds: float) -> tuple[Times, Times]:
    """Create by turns straight and through the gateway; return both ways' times."""
    times = (Times(), Times())
    for _ in range(WARM_UP):
        await first_output_ms(direct)
        await first_output_ms(through)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for client, found in zip((direct, through), times, strict=True):
            at = time.monotonic()
            found.add(await first_output_ms(client), at)
            await asyncio.sleep(0.05)  # the pool is refilled meanwhile
    return times


class Gateway:
    """One gateway, as its process and its address."""

    def __init__(self, cluster: Private) -> None:
        """Look at the first one."""
        table = read_table(cluster.folder)
        process = (
            next((r.process for r in table.rows if r.name == "gateway-1"), None) if table else None
        )
        if process is None:
            raise CannotMeasure("gateway-1 does not run")
        self.pid = process.pid
        self.url = cluster.folder.read().gateways[0]
        self.token = cluster.folder.token_file.read_text().strip()

    def mib(self) -> float:
        """Return the memory of its process."""
        found = procs.pss_mib(self.pid)
        if found is None:
            raise CannotMeasure("gateway-1 is gone")
        return found

    async def open(self, task: str, count: int) -> list[Reader]:
        """Open streams of a task."""
        return list(
            await asyncio.gather(*(open_reader(self.url, self.token, task) for _ in range(count)))
        )


async def measure_streams(gateway: Gateway, client: Client, count: int) -> tuple[float, int, Times]:
    """Read a task's output at once so often; return (MiB for each, wrong ones, delays of lines in ms)."""
    task = await client.start(code=WRITE_TIMES)
    before = gateway.mib()
    began = time.monotonic()
    readers = await gateway.open(task.task_id, count)
    say(f"{count} streams are open after {time.monotonic() - began:.1f} s")
    await asyncio.sleep(SETTLE_S)
    each = (gateway.mib() - before) / count
    await asyncio.gather(*(reader.read_all() for reader in readers))
    result = await task.result()
    wrong = sum(not r.ended or "".join(r.text) != result.stdout for r in readers)
    for reader in readers:
        await reader.close()
    delays = Times()
    for reader in readers:
        delays.values_ms += reader.delays_ms
        delays.at_s += reader.at_s
    return each, wrong, delays


async def measure_slow(gateway: Gateway, client: Client, count: int) -> float:
    """Open streams that nobody reads, of a task that writes much; return the MiB that each costs."""
    task = await client.start(code=WRITE_MUCH)
    before = gateway.mib()
    readers = await gateway.open(task.task_id, count)
    async for event in task.events():
        if isinstance(event, Output) and event.offset + len(event.data) >= SLOW_BYTES:
            break
    await asyncio.sleep(SETTLE_S)
    each = (gateway.mib() - before) / count
    for reader in readers:
        await reader.close()
    await task.result()
    return each


async def measure(given: argparse.Namespace) -> tuple[Report, Sequence[Picture]]:
    """Measure everything."""
    report = Report("gateway", find_commit(ROOT), {}, TARGETS)
    async with private_cluster(
        (PoolSpec(name=POOL, stock=STOCK),), isolation=given.isolation
    ) as cluster:
        isolation = await cluster.wait_warm(POOL, STOCK)
        gateway = Gateway(cluster)
        by_http = ClientOptions(servers=(gateway.url,), token=gateway.token)
        async with cluster.client() as direct, Client(by_http) as through:
            say("creating by turns straight and through the gateway")
            straight, over = await measure_creates(direct, through, given.seconds)
            say(f"opening {given.streams} streams that are read")
            each, wrong, delays = await measure_streams(gateway, direct, given.streams)
            say(f"opening {given.streams} streams that nobody reads")
            slow = await measure_slow(gateway, direct, given.streams)
    report.machine = describe_machine(isolation)
    report.add("wrong", wrong)
    for name, times in (("direct", straight), ("gateway", over), ("stream_delay", delays)):
        report.add(f"{name}_p50_ms", percentile(times.values_ms, 50))
        report.add(f"{name}_p99_ms", percentile(times.values_ms, 99))
    report.add("ratio", report.figures["gateway_p50_ms"] / report.figures["direct_p50_ms"])
    report.add("creates", len(over.values_ms))
    report.add("streams", given.streams)
    report.add("stream_mib", max(each, 0.0))
    report.add("slow_stream_mib", max(slow, 0.0))
    return report, [
        straight.series("create to first output, straight"),
        over.series("create to first output, through the gateway"),
        delays.series("a line's way to its readers"),
    ]


def main() -> int:
    """Measure; return the exit code."""
    given = parse()
    return run(lambda: measure(given), save=given.save, must_reach=True)


if __name__ == "__main__":
    sys.exit(main())
