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

TASKS_S = (0.15, 0.6, 3.0)
WAIT_S = 60.0
ONCE = ("run task", "wait in queue", "recover session", "execute task", "commit result")
TWICE = ("claim session", "restore workspace", "start program")
PROGRAM = Path(sys.executable).parent / "agent-sandbox"


async def record(cluster: Private, receiver: Receiver) -> list[Received]:
    """Run a task from the command line, kill its first worker, and return the spans of its trace.

    On a busy machine a short task is over before its worker is found; then a longer one is run.

    Raises:
        CannotMeasure: no worker could be killed in time.
    """
    said = ""
    for seconds in TASKS_S:
        task, said = await _run_and_kill(cluster, seconds)
        if task is not None:
            await until(lambda task=task: is_whole(trace_of(receiver, task)), within_s=WAIT_S)
            return trace_of(receiver, task)
    raise CannotMeasure(f"no worker could be killed while it ran its task: {said}")


async def _run_and_kill(cluster: Private, seconds: float) -> tuple[str | None, str]:
    """Run a task of this length; return its id if its worker was killed, and what the command line said."""
    killed: list[str] = []

    def heard(message: Message) -> None:
        if message.headers.get(headers.EVENT) == "started" and not killed:
            worker = messages.decode(message.data, OutputEvent).worker
            if kill(cluster, worker):
                killed.append(message.subject.rpartition(".")[2])

    hearing = await cluster.admin.subscribe(subjects.output("*", "*"), heard)
    words = ["run", "--shell", f"sleep {seconds}; echo done"]
    environ = {**os.environ, "AGENT_SANDBOX_STATE": str(cluster.folder.path)}
    ran = await asyncio.to_thread(
        subprocess.run, [PROGRAM, *words], env=environ, capture_output=True, text=True, check=False
    )
    await hearing.unsubscribe()
    is_recovered = ran.returncode == 0 and bool(killed)
    return killed[0] if is_recovered else None, ran.stderr


def kill(cluster: Private, worker: str) -> bool:
    """Kill a worker's process; return whether it was still there."""
    table = read_table(cluster.folder)
    victim = table and find_worker(cluster.folder, worker, table.supervisor.pid)
    return bool(victim) and victim.send(signal.SIGKILL)


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
