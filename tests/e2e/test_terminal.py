"""Terminals end to end: a client types, a program in a sandbox reads."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent_sandbox import Client, InvalidMessage, NotFound, Session, Shell
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.table import read_table
from shared.task import Command, Tty

SEE_S = 20.0
PLAIN: dict[str, Any] = {"env": {"PS1": "> "}, "term": "dumb"}
SHELL = ["sh", "-i"]


class Eyes:
    """Looks at what a terminal shows."""

    def __init__(self, shell: Shell) -> None:
        """Begin to look."""
        self.seen = b""
        self._shown = aiter(shell)

    async def see(self, text: str) -> bytes:
        """Read on until `text` appears; return all up to its end, and forget it."""
        wanted = text.encode()
        try:
            async with asyncio.timeout(SEE_S):
                while wanted not in self.seen:
                    self.seen += await anext(self._shown)
        except TimeoutError as exc:
            raise AssertionError(f"{text!r} is not in {self.seen[-2000:]!r}") from exc
        upto = self.seen.index(wanted) + len(wanted)
        seen, self.seen = self.seen[:upto], self.seen[upto:]
        return seen


@pytest.fixture
async def session(client: Client) -> AsyncIterator[Session]:
    """A session, closed at the end."""
    async with await client.create_session() as made:
        yield made


async def test_a_shell_is_used_like_a_terminal(session: Session) -> None:
    """Typing, ^C, a new size, a big paste, the exit code; what it writes is in the workspace, its output in the result."""
    async with session.shell(SHELL, rows=33, cols=101, **PLAIN) as shell:
        eyes = Eyes(shell)
        await eyes.see("> ")
        await shell.write("stty size; echo $TERM > kind\n")
        await eyes.see("33 101\r\n")
        await shell.resize(44, 55)
        await shell.write("sh -c 'stty size; exec sleep 1000'\n")
        await eyes.see("44 55\r\n")
        await shell.write("\x03")
        await eyes.see("> ")
        paste = os.urandom(300_000)
        await shell.write(
            f"stty raw -echo; echo re''ady; head -c {len(paste)} | sha256sum; stty sane\n"
        )
        await eyes.see("ready")
        await shell.write(paste)
        await eyes.see(hashlib.sha256(paste).hexdigest())
        await eyes.see("> ")
        await shell.write("exit 7\n")
        await eyes.see("exit 7\r\n")
        result = await shell.result()

    assert (result.status, result.exit_code) == ("failed", 7)
    assert "33 101" in result.stdout
    assert await session.read("kind") == b"dumb\n"
    with pytest.raises(NotFound):
        await shell.write("too late")


async def test_who_leaves_hangs_up_and_who_detaches_comes_back(session: Session) -> None:
    """After a detach another client goes on with the same shell; two may sit before one."""
    async with session.shell(SHELL, **PLAIN) as shell:
        eyes = Eyes(shell)
        await eyes.see("> ")
        await shell.write("kept=variable\n")
        await eyes.see("> ")
        shell.detach()

    async with session.attach() as again, session.attach(shell.task.task_id) as beside:
        first, second = Eyes(again), Eyes(beside)
        await again.write("echo $kept-1\n")
        assert b"kept=" not in await first.see("variable-1\r\n")
        await second.see("variable-1\r\n")
        await beside.write("echo $kept-2\n")
        await first.see("variable-2\r\n")
        beside.detach()

    result = await shell.result()  # `again` was not detached: its end was a hang-up
    assert result.status == "failed"
    assert result.raw.signal == signal.SIGHUP or result.exit_code == 128 + signal.SIGHUP
    with pytest.raises(NotFound):
        async with session.attach():
            pass


async def test_who_never_comes_back_leaves_no_shell_behind(session: Session) -> None:
    """It would hold its session's tasks up until its timeout; the size that is told again keeps it."""
    async with session.shell(SHELL, idle_s=3.0, **PLAIN) as shell:
        for _ in range(4):
            await asyncio.sleep(0.9)
            await shell.resize(24, 80)
        assert shell.task.stored is None
        shell.detach()

    result = await shell.result(wait_s=20)
    assert result.status == "failed"
    assert result.raw.signal == signal.SIGHUP or result.exit_code == 128 + signal.SIGHUP


async def test_a_replay_begins_with_what_was_shown(session: Session) -> None:
    """For who wants to see it."""
    async with session.shell(SHELL, **PLAIN) as shell:
        eyes = Eyes(shell)
        await shell.write("echo for-$((40+2))\n")
        await eyes.see("for-42\r\n")
        shell.detach()

    async with session.attach(replay=True) as again:
        await Eyes(again).see("for-42\r\n")


async def kill_worker(folder: Folder, session: Session) -> None:
    """Kill the process of the session's worker."""
    shown, table = await session.show(), read_table(folder)
    assert shown.record is not None
    assert table is not None
    owner = shown.record.owner or ""
    worker = await asyncio.to_thread(find_worker, folder, owner, table.supervisor.pid)
    assert worker is not None
    assert worker.send(signal.SIGKILL)


async def test_a_lost_worker_ends_a_terminal_and_says_so(
    session: Session, embedded: Folder
) -> None:
    """Keys can't be typed again by themselves, so it is not run again; the session goes on."""
    async with session.shell(SHELL, **PLAIN) as shell:
        eyes = Eyes(shell)
        await eyes.see("> ")
        await kill_worker(embedded, session)
        result = await shell.result(wait_s=30)
        with pytest.raises(NotFound):
            await shell.write("nobody reads this\n")

    assert (result.status, result.raw.reason) == ("interrupted", "worker_lost")
    async with session.shell(SHELL, **PLAIN) as shell:
        await Eyes(shell).see("> ")


async def test_limits_of_a_task_hold_in_a_terminal(session: Session) -> None:
    """Its time, and a cancel: both hang up first."""
    async with session.shell(SHELL, timeout_s=1.0, **PLAIN) as shell:
        result = await shell.result(wait_s=30)
    assert (result.status, result.raw.reason) == ("failed", "timeout")

    async with session.shell(SHELL, **PLAIN) as shell:
        await Eyes(shell).see("> ")
        assert (await shell.task.cancel()).outcome == "cancelled"
        result = await shell.result(wait_s=30)
    assert result.status == "cancelled"


async def test_what_can_not_be_is_refused_by_name(session: Session, client: Client) -> None:
    """Before it is published, or by who is asked."""
    with pytest.raises(InvalidMessage, match="rows"):
        async with session.shell(SHELL, rows=0):
            pass
    with pytest.raises(InvalidMessage, match="no option 'row'"):
        async with session.shell(SHELL, row=3):  # type: ignore[call-arg]  # a typo
            pass
    with pytest.raises(InvalidMessage, match="on_interrupt"):
        await client.publish(Command(argv=("sh",), tty=Tty(), on_interrupt="rerun"), {})
    async with session.shell(SHELL, **PLAIN) as shell:
        with pytest.raises(InvalidMessage, match="Agent-Size"):
            await shell.resize(0, 80)
    with pytest.raises(NotFound):
        async with session.attach(shell.task.task_id):
            pass
