"""The demo's parts: each publishes real input, looks at what comes back, and says what was promised."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path

import msgspec

from agent_sandbox.client import Client
from agent_sandbox.demo.report import Report, percentile
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.table import read_table
from agent_sandbox.events import Output, Recovered, Started
from agent_sandbox.results import Result
from agent_sandbox.running import RunningTask

STEPS = ("step1_clean.py", "step2_aggregate.py", "step3_report.py")
SAMPLES_WARM = 40
SAMPLES_COLD = 12
PAUSE_S = 0.05
"""Between two samples: a pool is refilled meanwhile, as at a steady load."""
KILLED_RUNS_S = 3.0
KILL_AFTER_LINES = 3
KILL_WAIT_S = 30.0


class Demo(msgspec.Struct):
    """What the parts work with."""

    client: Client
    folder: Folder
    examples: Path
    report: Report
    ttis: dict[str, list[float]] = {}

    def note_tti(self, path: str, result: Result) -> None:
        """Remember a time to the first instruction under the path that the task took."""
        if result.tti_s is not None:
            self.ttis.setdefault(path, []).append(result.tti_s)


async def analysis(demo: Demo) -> None:
    """Analyse a CSV file in three steps of one session, as an agent would."""
    report, folder = demo.report, demo.examples / "analysis"
    orders = folder / "orders.csv"
    rows = len(orders.read_text().splitlines()) - 1
    report.section(f"One session, three steps: examples/analysis/orders.csv, {rows} rows")
    async with await demo.client.create_session(files={"orders.csv": orders}) as session:
        outcomes: list[Result] = []
        for step in STEPS:
            code = await asyncio.to_thread((folder / step).read_text)
            result = await session.python(code)
            outcomes.append(result)
            demo.note_tti("next task of a session", result)
            report.line(f"{step:<18} {result.total_s * 1000:6.1f} ms  {first_line(result)}")
        report.block(outcomes[-1].stdout)
        written = (await session.read("report.txt")).decode()
        names = sorted(entry.name for entry in await session.list())
    expected = await asyncio.to_thread((folder / "expected_report.txt").read_text)
    generations = {out.raw.interpreter.generation for out in outcomes if out.raw.interpreter}
    report.ended_well(outcomes, "every step ended well")
    report.promise(
        written == expected, "report.txt, read back from the session, is the one expected"
    )
    report.promise(len(generations) == 1, "one interpreter ran all steps: its variables lived on")
    report.promise({"clean.csv", "orders.csv"} <= set(names), f"files stayed: {', '.join(names)}")


async def batch(demo: Demo) -> None:
    """Run one-shots of two classes at once, each with its own input file."""
    report, folder = demo.report, demo.examples / "batch"
    texts = sorted((folder / "texts").glob("*.txt"))
    jobs = [(text, klass) for klass in ("interactive", "batch") for text in texts]
    report.section(
        f"{len(jobs)} one-shots at once, two classes: examples/batch/texts, {len(texts)} files"
    )

    async def one(text: Path, klass: str) -> Result:
        return await demo.client.run(
            ["python3", "word_stats.py", text.name],
            klass=klass,
            files={"word_stats.py": folder / "word_stats.py", text.name: text},
        )

    began = time.monotonic()
    results = await asyncio.gather(*(one(text, klass) for text, klass in jobs))
    took_s = time.monotonic() - began
    rows = []
    for text in texts:
        found = {
            klass: out for (name, klass), out in zip(jobs, results, strict=True) if name == text
        }
        stats = json.loads(found["interactive"].stdout or "{}")
        times = (found[klass].tti_s or 0 for klass in ("interactive", "batch"))
        rows.append(
            (
                text.name,
                str(stats.get("words", "?")),
                str(stats.get("different", "?")),
                ", ".join(stats.get("most_often", {})),
                *(f"{tti_s * 1000:.0f} ms" for tti_s in times),
            )
        )
    report.table(("file", "words", "different", "most often", "interactive", "batch"), rows)
    same = all(
        results[index].stdout == results[index + len(texts)].stdout for index in range(len(texts))
    )
    report.ended_well(results, f"all {len(jobs)} ended well, in {took_s:.2f} s")
    report.promise(same, "both classes gave the same answers")
    report.promise(
        len({out.raw.worker for out in results}) == len(jobs), "each ran in a sandbox of its own"
    )


async def killed(demo: Demo) -> None:
    """Kill the worker of a one-shot in mid-task and watch the task end elsewhere."""
    report, folder = demo.report, demo.examples / "recovery"
    text = demo.examples / "batch" / "texts" / "release-notes.txt"
    report.section("A worker killed in mid-task: examples/recovery/count_slowly.py")
    task = await demo.client.start(
        ["python3", "count_slowly.py", text.name, str(KILLED_RUNS_S)],
        files={"count_slowly.py": folder / "count_slowly.py", text.name: text},
    )
    async with asyncio.timeout(KILL_WAIT_S), task:
        starts, killed_ms = await _kill_and_watch(demo, task)
        result = await task.result()
    losses = result.raw.interruptions
    if len(starts) > 1 and losses:
        detect_s = (losses[-1].revoked_ms - killed_ms) / 1000
        recover_s = (starts[1].at_ms - killed_ms) / 1000
        report.line(
            f"detected after {detect_s:.3f} s ({losses[-1].cause}); user code ran again after {recover_s:.3f} s"
        )
    report.block(result.stdout.strip().rpartition("\n")[2])
    report.ended_well([result], "the task ended well")
    workers = [start.worker for start in starts]
    report.promise(len(set(workers)) > 1, f"elsewhere: {' killed, then '.join(workers)}")
    report.promise(len(losses) == 1, "its one result tells of the loss")


async def _kill_and_watch(demo: Demo, task: RunningTask) -> tuple[list[Started], float]:
    """Return each start of user code, and the wall clock of the kill, milliseconds since 1970."""
    starts: list[Started] = []
    killed_ms = 0.0
    lines = 0
    async for event in task.events():
        match event:
            case Started():
                starts.append(event)
            case Output(stream="stdout") if not killed_ms:
                lines += event.data.count(b"\n")
                if lines >= KILL_AFTER_LINES:
                    killed_ms = await asyncio.to_thread(_kill, demo.folder, starts[0].worker)
            case Recovered() if event.event.interruption:
                cause = event.event.interruption.cause
                demo.report.line(
                    f"the client hears: recovered, attempt {event.attempt} (cause: {cause})"
                )
            case _:
                pass
    return starts, killed_ms


def _kill(folder: Folder, worker: str) -> float:
    table = read_table(folder)
    victim = find_worker(folder, worker, table.supervisor.pid) if table else None
    assert victim is not None, f"no process found for worker {worker}"
    now_ms = time.time() * 1000
    victim.send(signal.SIGKILL)
    return now_ms


async def times(demo: Demo) -> None:
    """Sample the time to the first instruction of user code, one task after another."""
    report = demo.report
    report.section("Time to the first instruction of user code (TTI), on the client's clock")
    results: list[Result] = []
    for path, pool, count in (
        ("one-shot, warm", "default", SAMPLES_WARM),
        ("one-shot, on demand", "cold", SAMPLES_COLD),
    ):
        for _ in range(count):
            result = await demo.client.run(["true"], pool=pool)
            results.append(result)
            demo.note_tti(path, result)
            await asyncio.sleep(PAUSE_S)  # the pace of the load, not a wait for something
    report.table(
        ("path", "n", "p50", "p99"),
        [
            (
                path,
                str(len(values)),
                f"{percentile(values, 0.5) * 1000:.1f} ms",
                f"{percentile(values, 0.99) * 1000:.1f} ms",
            )
            for path, values in demo.ttis.items()
        ],
    )
    report.ended_well(results, f"all {len(results)} ended well")
    unseen = sum(result.tti_s is None for result in results)
    report.promise(not unseen, "every start was seen" + (f", but {unseen}" if unseen else ""))


def first_line(result: Result) -> str:
    """Return the first line of what a task wrote, or how it failed."""
    if not result.ok:
        return (result.stderr.strip().splitlines() or [result.status])[-1]
    return (result.stdout.splitlines() or [""])[0]
