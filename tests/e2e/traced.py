"""What the tests of traces share: names, the standard variables, and how a trace is looked at."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter

from agent_sandbox import RunningTask, Started
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.table import read_table
from agent_sandbox.places import TENANT
from shared.testing.look import until
from shared.testing.otlp import Received, Receiver

POOLS = """\
[[pool]]
name = "default"
stock = 2
idle_release_s = 1
[[pool]]
name = "one"
stock = 1
pods_max = 1
"""
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CAME = ("wait in queue", "fetch q.{shard}.{tenant}.{pool}.{class}")
PARTS = (
    "claim session",
    "ack q.{shard}.{tenant}.{pool}.{class}",
    "restore workspace",
    "start program",
    "execute task",
    "commit result",
)
TOKEN = "publish q.{shard}.{tenant}.{pool}.{class}"
PUBLISH = "publish task.{tenant}.{pool}.{class}"
PROCESS = "process task.{tenant}.{pool}.{class}"
TASK = "agent_sandbox.task.id"
RESOURCE = {
    "service.namespace": "agent-sandbox",
    "service.name": "worker-agent",
    "k8s.node.name": "node-1",
    "deployment.environment.name": "test",
}
SKEW_NS = 1_000_000
"""The servers' clock is read in whole milliseconds."""


def variables(receiver: Receiver) -> dict[str, str]:
    """Return the standard variables that turn traces on."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }


async def spans_of(
    receiver: Receiver, task: str, *more: str, attempts: int = 1, within_s: float = 20
) -> list[Received]:
    """Return a task's trace once it is whole: its parts come by several processes, each in its own time.

    Args:
        receiver: where it comes.
        task: the task.
        more: names of spans that it has beside the wait and the attempts.
        attempts: how many of them there are; all but the last were cut off when user code ran.
        within_s: longest wait.
    """
    wanted = Counter(["wait in queue", *more, *PARTS, *PARTS[:4] * (attempts - 1), CAME[1]])

    def found() -> list[Received]:
        mine = [span for span in receiver.spans() if span.attributes.get(TASK) == task]
        return receiver.spans(mine[0].trace) if mine else []

    def is_whole() -> bool:
        names = Counter(span.name for span in found())
        done = sum(count for name, count in names.items() if name.startswith("process "))
        return names >= wanted and done == attempts

    await until(is_whole, within_s=within_s)
    return found()


def named(spans: list[Received], name: str) -> Received:
    """Return the one span of a name."""
    (one,) = [span for span in spans if span.name == name]
    return one


def check_tree(spans: list[Received], root: str = "") -> None:
    """One trace without a gap: every parent is there, ids are unique, nothing begins before its parent.

    Args:
        spans: of one trace.
        root: a span of a caller who exports elsewhere.
    """
    known = {span.id: span for span in spans}
    assert len(known) == len(spans)
    assert len({span.trace for span in spans}) == 1
    for span in spans:
        assert span.end_ns >= span.start_ns, span.name
        assert span.parent in known or span.parent == root, span.name
        if span.parent in known:
            assert span.start_ns >= known[span.parent].start_ns - SKEW_NS, span.name
    assert {link[0] for span in spans for link in span.links} <= {spans[0].trace}


def check_attempt(spans: list[Received], process: Received, *more: str) -> None:
    """All parts of an attempt hang under it, within its time; a kept session's have `more` of them."""
    parts = [span for span in spans if span.parent == process.id]

    assert sorted(span.name for span in parts) == sorted((*PARTS, *more))
    assert all(span.end_ns <= process.end_ns for span in parts)
    assert all(span.service == "worker-agent" for span in parts)


def attempt_of(task: str) -> dict[str, object]:
    """Return what stands at least in the span of the first attempt of a one-shot that exits with another code than 0."""
    return {
        "messaging.system": "nats",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": f"task.{TENANT}.default.interactive",
        "messaging.destination.template": "task.{tenant}.{pool}.{class}",
        "messaging.message.conversation_id": task,
        "agent_sandbox.session.id": task,
        "agent_sandbox.task.id": task,
        "agent_sandbox.attempt": 1,
        "agent_sandbox.epoch": 1,
        "agent_sandbox.status": "failed",
        "error.type": "exit_code",
    }


def kill_worker(traced: Folder, worker: str) -> None:
    """Kill a worker's process."""
    table = read_table(traced)
    assert table is not None
    victim = find_worker(traced, worker, table.supervisor.pid)
    assert victim is not None
    assert victim.send(signal.SIGKILL)


async def worker_of(task: RunningTask) -> str:
    """Return the worker that runs a task, once it does."""
    async with asyncio.timeout(20):
        async for event in task.events():
            if isinstance(event, Started):
                return event.worker
    raise AssertionError("it ended without a start")
