"""One task whose worker is killed while it runs, and its trace as a backend received it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from harness.cluster import Private
from harness.running import CannotMeasure

from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.table import read_table
from shared import headers, messages, subjects
from shared.bus import Message
from shared.messages import OutputEvent
from shared.testing.look import until
from shared.testing.otlp import Received, Receiver

TASK_S = 0.15
WAIT_S = 60.0
ONCE = ("run task", "wait in queue", "recover session", "execute task", "commit result")
TWICE = ("claim session", "restore workspace", "start program")
PROGRAM = Path(sys.executable).parent / "agent-sandbox"


async def record(cluster: Private, receiver: Receiver) -> list[Received]:
    """Run the task from the command line, kill its first worker, and return the spans of its trace.

    Raises:
        CannotMeasure: no worker was killed, or the trace is not whole in time.
    """
    killed: list[str] = []

    def heard(message: Message) -> None:
        if message.headers.get(headers.EVENT) == "started" and not killed:
            kill(cluster, messages.decode(message.data, OutputEvent).worker)
            killed.append(message.subject)

    hearing = await cluster.admin.subscribe(subjects.output("*", "*"), heard)
    words = ["run", "--shell", f"sleep {TASK_S}; echo done"]
    environ = {**os.environ, "AGENT_SANDBOX_STATE": str(cluster.folder.path)}
    ran = await asyncio.to_thread(
        subprocess.run, [PROGRAM, *words], env=environ, capture_output=True, text=True, check=False
    )
    await hearing.unsubscribe()
    if ran.returncode or not killed:
        raise CannotMeasure(f"the task did not run as it should: {ran.stderr}")
    task = killed[0].rpartition(".")[2]
    await until(lambda: is_whole(trace_of(receiver, task)), within_s=WAIT_S)
    return trace_of(receiver, task)


def kill(cluster: Private, worker: str) -> None:
    """Kill a worker's process.

    Raises:
        CannotMeasure: it is not found.
    """
    table = read_table(cluster.folder)
    victim = table and find_worker(cluster.folder, worker, table.supervisor.pid)
    if not victim:
        raise CannotMeasure(f"worker {worker} is not found")
    victim.send(signal.SIGKILL)


def trace_of(receiver: Receiver, task: str) -> list[Received]:
    """Return all spans of a task's trace that have come."""
    spans = receiver.spans()
    mine = [span for span in spans if span.attributes.get("agent_sandbox.task.id") == task]
    return [span for span in spans if mine and span.trace == mine[0].trace]


def is_whole(spans: list[Received]) -> bool:
    """Return whether all parts of both attempts, the recovery and the caller's span are there: they come by several ways."""
    names = Counter(span.name for span in spans)
    attempts = sum(count for name, count in names.items() if name.startswith("process "))
    return names >= Counter([*ONCE, *TWICE, *TWICE]) and attempts > 1
