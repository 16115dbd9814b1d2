"""A worker that stands still for 20 s in mid-task: given up, replaced, and harmless when it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import time
from pathlib import Path

import pytest

from agent_sandbox import Client
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import ProcessId
from agent_sandbox.embedded.table import read_table
from shared import messages, subjects
from shared.bus import Bus, Message
from shared.ids import home
from shared.messages import TaskResult
from shared.record import Record

PAUSED_S = 20.0
TASK_S = 9.0
"""Longer than T_fence, so that the first attempt still runs when its worker is given up."""
MARK = f"300.{secrets.randbelow(10**9):09}"
"""Of this run's user processes: their arguments, since nobody but their user may read their environment everywhere."""
CODE = f"""
import subprocess, time
subprocess.Popen(["sleep", "{MARK}"])  # what the zombie's user code leaves behind
print("begun", flush=True)
time.sleep({TASK_S})
open("effect.txt", "a").write("once\\n")
print(open("effect.txt").read())
"""


def user_processes() -> set[int]:
    """Return the processes that this run's user code left behind, whichever user they have."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # gone
                if (entry / "cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", MARK.encode()]:
                    found.add(int(entry.name))
    return found


async def until(what: str, holds: object, within_s: float) -> None:
    """Wait until a condition holds, or fail with what was waited for."""
    end = time.monotonic() + within_s
    while not holds():  # type: ignore[operator]  # a function without arguments
        assert time.monotonic() < end, f"not within {within_s} s: {what}"
        await asyncio.sleep(0.1)


def paused(folder: Folder, worker: str) -> ProcessId:
    """Stop a worker's process and return it."""
    table = read_table(folder)
    assert table is not None
    victim = find_worker(folder, worker, table.supervisor.pid)
    assert victim is not None
    victim.send(signal.SIGSTOP)
    return victim


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_paused_zombie_is_replaced_and_can_write_nothing(
    embedded: Folder, client: Client, truth: Bus
) -> None:
    """Its writes are refused, its user code is killed, its pod ends; judged by the streams."""
    history: list[tuple[int, Record]] = []

    def record_stored(message: Message) -> None:
        history.append(
            (int(message.headers["Nats-Sequence"]), messages.decode(message.data, Record))
        )

    results: list[TaskResult] = []
    await truth.subscribe("rec.default.>", record_stored)
    task = await client.start(code=CODE)
    await truth.subscribe(
        subjects.done("default", task.session_id),
        lambda message: results.append(messages.decode(message.data, TaskResult)),
    )
    await until("the first attempt runs", lambda: len(user_processes()) >= 1, 10)
    mine = [record for _, record in history if record.session == task.session_id]
    zombie = mine[0].owner
    assert zombie is not None
    stopped = paused(embedded, zombie)
    stopped_at = time.monotonic()
    left_behind = user_processes()

    result = await task.result(wait_s=PAUSED_S)
    assert time.monotonic() - stopped_at < PAUSED_S
    # The length of the pause is the fault itself.
    await asyncio.sleep(max(0.0, stopped_at + PAUSED_S - time.monotonic()))
    assert user_processes() & left_behind, "the zombie's user code should still be there"
    stored = history[-1][0]
    stopped.send(signal.SIGCONT)

    await until("its user code is gone", lambda: not user_processes(), 10)
    await until("its process is gone", lambda: not Path(f"/proc/{stopped.pid}").exists(), 10)
    mine = [record for _, record in history if record.session == task.session_id]
    assert [(r.state, r.owner == zombie, r.epoch) for r in mine] == [
        ("running", True, 1),
        ("queued", False, 2),
        ("running", False, 3),
        ("closed", False, 3),
    ]
    assert len(results) == 1
    assert (results[0].worker == zombie, results[0].epoch, results[0].attempt) == (False, 3, 2)
    assert results[0].interruptions[0].worker == zombie
    assert results[0].interruptions[0].recovered_ms is not None
    # A server drops a client that answers no ping; else the silence of its heartbeats is noticed.
    assert results[0].interruptions[0].cause in {"disconnect", "heartbeats_missed"}
    assert result.stdout.splitlines()[:2] == ["begun", "once"]
    last = await truth.read_last(
        subjects.state_stream(home(task.session_id)),
        subjects.record("default", "default", task.session_id),
    )
    assert last is not None
    assert [seq for seq, record in history if record.session == task.session_id][-1] == last.seq
    assert last.seq <= stored, "nothing was written for this session after the zombie woke"
