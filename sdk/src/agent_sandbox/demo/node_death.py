"""The demo's last part: a node dies in the middle of an analysis, which goes on elsewhere from its files."""

from __future__ import annotations

import asyncio
import signal
import time

from agent_sandbox.demo.parts import KILL_WAIT_S, KILLED_RUNS_S, Demo
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.table import read_table
from agent_sandbox.events import Output, Recovered, Started
from agent_sandbox.running import RunningTask
from agent_sandbox.session import Session

KILL_AFTER_LINES = 60
"""About a third of them: a second of work."""
REVENUE = "revenue 8916.70"
"""As in examples/analysis/expected_report.txt."""


async def node_death(demo: Demo) -> None:
    """Kill the node of a session in the middle of its second step."""
    report, examples = demo.report, demo.examples
    report.section("A node killed in mid-analysis: examples/recovery/sum_slowly.py")
    files = {
        "orders.csv": examples / "analysis" / "orders.csv",
        "step1_clean.py": examples / "analysis" / "step1_clean.py",
        "sum_slowly.py": examples / "recovery" / "sum_slowly.py",
    }
    async with await demo.client.create_session(files=files) as session:
        first = await session.exec(["python3", "step1_clean.py"])
        report.line(f"step 1: {first.stdout.strip()}")
        task = await session.start(["python3", "sum_slowly.py", str(KILLED_RUNS_S)])
        async with asyncio.timeout(KILL_WAIT_S), task:
            starts, died, killed_ms = await _kill_and_watch(demo, session, task)
            result = await task.result()
        there = await session.exec(["sh", "-c", "wc -l < log.txt; ls"])
    if result.raw.interruptions and len(starts) > 1:
        report.line(
            f"{died} killed; user code ran again after {(starts[1].at_ms - killed_ms) / 1000:.3f} s"
        )
    report.block(result.stdout.strip().rpartition("\n")[2])
    report.ended_well([first, result, there], "both steps ended well")
    nodes = f"elsewhere: {died} killed, then {result.raw.node}"
    report.promise(result.raw.node != died, nodes)
    report.promise(
        result.stdout.strip().endswith(REVENUE), "it went on from the files that step 1 had left"
    )
    log_lines, *names = there.stdout.split() or ["none"]
    report.promise(
        log_lines == "1" and {"clean.csv", "regions.txt"} <= set(names),
        "what the lost attempt had written was rolled back: its effects on files are there once",
    )


async def _kill_and_watch(
    demo: Demo, session: Session, task: RunningTask
) -> tuple[list[Started], str, float]:
    """Return each start of user code, the node that was killed, and when, milliseconds since 1970."""
    starts: list[Started] = []
    died, killed_ms, lines = "", 0.0, 0
    async for event in task.events():
        match event:
            case Started():
                starts.append(event)
            case Output(stream="stdout") if not died:
                lines += event.data.count(b"\n")
                record = (await session.show()).record if lines >= KILL_AFTER_LINES else None
                if record is not None and record.node is not None:
                    died = record.node
                    killed_ms = await asyncio.to_thread(_kill, demo.folder, died)
            case Recovered() if event.event.interruption:
                lost = event.event.recovery.work_lost_s if event.event.recovery else 0
                demo.report.line(
                    f"the client hears: recovered, attempt {event.attempt}, "
                    f"{lost:.1f} s of work are done again"
                )
            case _:
                pass
    return starts, died, killed_ms


def _kill(folder: Folder, node: str) -> float:
    """Kill a node: all sandboxes on it die with it, and so does its checkpointer."""
    table = read_table(folder)
    rows = [row for row in table.rows if row.name == node] if table else []
    assert rows, f"no process found for {node}"
    assert rows[0].process is not None, f"{node} does not run"
    now_ms = time.time() * 1000
    rows[0].process.send(signal.SIGKILL)
    return now_ms
