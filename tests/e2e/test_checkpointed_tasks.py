"""A task is checkpointed in the middle and its worker is killed: it goes on by its rule, and its client is told what that cost."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable

import pytest

from agent_sandbox import Client, Session
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import wait_gone
from agent_sandbox.embedded.table import read_table
from shared.pools import OnInterrupt
from shared.record import Record
from shared.testing.look import until

POOL = "cold"
"""Its tasks are checkpointed each second."""
APPENDS = """
echo "$AGENT_SANDBOX_ATTEMPT" >> journal
if [ "$AGENT_SANDBOX_ATTEMPT" = 1 ]; then sleep 300; fi
echo "${AGENT_SANDBOX_INTERRUPTED:-null}"
"""


async def record_of(session: Session, reached: Callable[[Record], bool]) -> Record:
    """Return the session's record once it is so."""

    async def found() -> Record | None:
        record = (await session.show()).record
        return record if record is not None and reached(record) else None

    record: Record = await until(found, within_s=30)
    return record


async def kill_owner(folder: Folder, record: Record) -> None:
    """Kill the process of the worker that owns a session."""
    table = read_table(folder)
    assert table is not None
    assert record.owner is not None
    victim = await asyncio.to_thread(find_worker, folder, record.owner, table.supervisor.pid)
    assert victim is not None, f"{record.owner} has no process"
    assert victim.send(signal.SIGKILL)
    assert await asyncio.to_thread(wait_gone, [victim], 5.0) == []


async def lines(session: Session, path: str) -> list[str]:
    """Return the lines of a file."""
    return (await session.read(path)).decode().splitlines()


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("rule", "journal"),
    [("rerun", ["before", "2"]), ("resume", ["before", "1", "2"])],
)
async def test_a_task_killed_after_a_checkpoint_goes_on_by_its_rule(
    embedded: Folder, client: Client, rule: OnInterrupt, journal: list[str]
) -> None:
    """`rerun` leaves its line once; `resume` sees the one before. What was saved before the task is there in both."""
    async with await client.create_session(pool=POOL) as session:
        await session.exec("echo before > journal")
        running = await session.start(APPENDS, on_interrupt=rule)
        await kill_owner(
            embedded, await record_of(session, lambda record: record.latest is not None)
        )
        result = await running.result(wait_s=60)

        assert (result.ok, await lines(session, "journal")) == (True, journal)
        recovery = result.raw.recovery
        assert recovery is not None
        assert (recovery.rule, recovery.cause) == (rule, result.raw.interruptions[-1].cause)
        assert recovery.snapshot_ms > 0
        assert recovery.total_s is not None
        assert recovery.restore_s <= recovery.total_s
        assert result.raw.workspace_lost is None
        told = json.loads(result.stdout)
        if rule == "rerun":
            assert told is None
            assert recovery.work_lost_s > 0
            assert recovery.work_lost_bytes in (None, len("before\n1\n"))
        else:  # its node lived: nothing that it did is missing
            assert told == {"cause": recovery.cause, "attempt": 1, "seconds": 0.0}
            assert (recovery.work_lost_s, recovery.work_lost_bytes) == (0.0, 0)
