"""What a pool's setting does to an idle session: it hibernates, and its files come back with its next task."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from agent_sandbox import Client
from shared.record import Record
from shared.testing.look import until

Cli = Callable[..., subprocess.CompletedProcess[str]]


async def test_an_idle_session_hibernates_and_goes_on_with_its_files(
    client: Client, cli: Cli
) -> None:
    """After the pool's second of nothing its only sandbox is free for others; the next task restores the files."""
    async with await client.create_session(pool="narrow") as session:
        await session.exec("echo kept > note; mkdir d; ln -s ../note d/link")

        async def sleeps() -> Record | None:
            record = (await session.show()).record
            return record if record is not None and record.state == "idle" else None

        asleep: Record = await until(sleeps, within_s=20.0)
        other = await client.run(["true"], pool="narrow")
        woken = await session.exec("cat d/link")
        shown = cli("session", "show", session.id).stdout
        fork = await session.fork()
        told = cli("session", "show", fork.id).stdout
        await fork.close()

    assert asleep.boundary is not None
    assert (asleep.owner, asleep.losses) == (None, 0)
    assert other.ok
    assert (woken.stdout, woken.raw.workspace_lost) == ("kept\n", None)
    assert woken.raw.timing.restored_ms > 0
    assert "saved" in shown
    assert f"fork of  {session.id}" in told
