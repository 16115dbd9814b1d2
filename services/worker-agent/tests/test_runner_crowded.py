"""Where as many processes run as may, a task's start waits a moment for room: nothing of it has run."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sitting import Sitting

from sandbox_runner.beginning import AGAIN_S
from shared.limits import START_AGAIN_S
from worker_agent.adapters.runner import Exit

OF_ITS_OWN = 200_000 + os.getpid() % 100_000
"""A user of nobody's: the kernel refuses root nothing."""
KINDS = ("command", "terminal", "python")


class Crowd:
    """A runner whose user has no room for another process or thread, or has some again."""

    def __init__(self, kit: Any, user: int | None, most: int) -> None:
        """With room. Of `user` there is the runner alone, at most so many may be; None: it is ours."""
        self.kit = kit
        self._user = user
        self._most = most
        self._others: list[subprocess.Popen[bytes]] = []

    def fill(self) -> None:
        """Have more processes of this user than may be: new ones, or for us who have some already by fewer that may."""
        if self._user is None:
            self._bound(1)
        else:
            self._others += [
                subprocess.Popen(["/bin/sleep", "1000"], user=self._user, group=self._user)
                for _ in range(self._most)
            ]

    def empty(self) -> None:
        """As before."""
        if self._user is None:
            self._bound(None)
        while self._others:
            other = self._others.pop()
            other.kill()
            other.wait()

    def _bound(self, processes: int | None) -> None:
        which = self.kit.process.pid, resource.RLIMIT_NPROC
        _, most = resource.prlimit(*which)
        resource.prlimit(*which, (most if processes is None else processes, most))

    async def run(self, kind: str) -> Exit:
        """Run a task that does well."""
        if kind == "terminal":
            return await Sitting(self.kit.channel, "sits", argv=("/bin/true",)).ended()
        code = {"code": "1 + 1"} if kind == "python" else {"argv": ["/bin/true"]}
        end: Exit = (await self.kit.run(kind=kind, **code)).exit
        return end

    async def begin(self, kind: str) -> asyncio.Task[Exit]:
        """Start a task; return when the runner has tried to begin it."""
        running = asyncio.create_task(self.run(kind))
        await asyncio.sleep(0)
        await self.kit.channel.files.list(".")  # answered after what was sent before
        return running


@pytest.fixture
async def crowd(start: Any) -> AsyncIterator[Crowd]:
    """Of a user of its own where we may make one; other users' processes do not count."""
    with tempfile.TemporaryDirectory(prefix="agent-sandbox-crowd-") as name:
        user = OF_ITS_OWN if os.geteuid() == 0 else None
        if user is not None:
            os.chown(name, user, user)
        kit = await start(workspace=Path(name), user=user).connect()
        made = Crowd(kit, user, kit.processes_max)
        yield made
        made.empty()
        await kit.channel.close()


@pytest.mark.parametrize("used", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_task_begins_as_soon_as_there_is_room(crowd: Crowd, kind: str, used: bool) -> None:
    """Also where not even the thread could be made that all processes are children of."""
    if used:
        await crowd.run("command")
    crowd.fill()
    running = await crowd.begin(kind)
    crowd.empty()

    end = await running
    assert (end.error, end.exit_code) == (None, 0)


@pytest.mark.parametrize(("kind", "used"), [("python", False), ("terminal", True)])
async def test_where_no_room_comes_the_task_fails_after_its_bound(
    crowd: Crowd, kind: str, used: bool
) -> None:
    """Whoever fills it: the session's own programs, for instance. The reason is told, and the runner goes on."""
    assert AGAIN_S == START_AGAIN_S
    if used:
        await crowd.run("command")
    crowd.fill()

    end = await crowd.run(kind)
    assert end.error is not None
    assert end.error.code == "exec_no_resources"
    assert "no process could be made" in end.error.message
    assert "None" not in end.error.message
    crowd.empty()
    for one in KINDS:
        assert (await crowd.run(one)).exit_code == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_task_that_waits_for_room_can_be_stopped(crowd: Crowd, kind: str) -> None:
    """At once; it does not begin later."""
    crowd.fill()
    running = await crowd.begin(kind)
    crowd.kit.channel.stop(10.0)

    end = await running
    assert end.error is not None
    assert end.error.message == "ended before it could begin"
    crowd.empty()
    assert (await crowd.run(kind)).exit_code == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_begins_while_user_code_stands_still(crowd: Crowd, kind: str) -> None:
    """There is room again, and it waits on, for however long."""
    crowd.fill()
    running = await crowd.begin(kind)
    await crowd.kit.channel.freeze()
    crowd.empty()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):  # many times the pause between two tries
            await asyncio.shield(running)
    await crowd.kit.channel.thaw()

    assert (await running).exit_code == 0
