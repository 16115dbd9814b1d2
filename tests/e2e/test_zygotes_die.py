"""A node's fork servers killed in mid-task: the task did nothing wrong, so it is run again, however often."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
from functools import partial
from pathlib import Path

import pytest

from agent_sandbox import Client
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.table import read_table
from shared.bus import Bus
from shared.testing.look import Look, until

TIMES = 3
"""As many deaths of the worker's process as make a task poison."""
TASK_S = 4
"""Long enough to be hit in the middle."""
MARK = f"{TASK_S}.{secrets.randbelow(10**9):09}"
FORK_SERVER = b"local_node.adapters.zygote.server"


def command_of(pid: int) -> list[bytes]:
    """Return a process's command line; empty where it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def running() -> set[int]:
    """Return the processes that are an attempt at the task."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return {pid for pid in pids if command_of(pid)[:2] == [b"sleep", MARK.encode()]}


def another(before: set[int]) -> int | None:
    """Return the attempt that was not there before, once it is."""
    return next(iter(running() - before), None)


def parent(pid: int) -> int:
    """Return a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def fork_servers(folder: Folder, attempt: int) -> dict[str, int]:
    """Return the fork servers of the node that an attempt runs on."""
    table = read_table(folder)
    assert table is not None
    nodes = {row.process.pid for row in table.rows if row.kind == "node" and row.process}
    line = [attempt]
    while line[-1] not in nodes:
        line.append(parent(line[-1]))
    node, first, second = line[-1], line[-2], line[-3]
    # Without a process namespace the fork server has a keeper above it, and is of the keeper's session.
    sandboxes = second if os.getsid(second) == first else first
    workers = [
        pid
        for pid in map(int, Path(f"/proc/{node}/task/{node}/children").read_text().split())
        if FORK_SERVER in b" ".join(command_of(pid)) and b"-S" not in command_of(pid)
    ]
    assert len(workers) == 1
    return {"sandbox": sandboxes, "worker": workers[0]}


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_task_outlives_the_fork_servers_below_it(
    embedded: Folder, client: Client, truth: Bus
) -> None:
    """Three times that of its sandbox, three times that of its worker: `ok`, interrupted, nobody's fault."""
    task = await client.start(["sleep", MARK])
    before: set[int] = set()
    for which in ("sandbox", "worker") * TIMES:
        attempt = await until(partial(another, before), within_s=20)
        before.add(attempt)
        os.kill(fork_servers(embedded, attempt)[which], signal.SIGKILL)

    result = await task.result(wait_s=60)

    assert (result.status, result.exit_code) == ("ok", 0)
    look = Look(truth, "default")
    stored = await look.result(task.session_id)
    assert stored is not None
    assert len(stored.interruptions) == 2 * TIMES
    causes = {each.cause for each in stored.interruptions}
    # A server may tell of the lost connection before the node has seen the last process of the pod end.
    assert causes <= {"zygote_lost", "disconnect"}
    record = await look.record(task.session_id)
    assert record is not None
    assert record.deaths == 0
