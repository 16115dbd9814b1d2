"""What user code can do to its runner (nothing), and the runner to user code (everything)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shared.testing.wait import until
from worker_agent.adapters.runner import RunnerChannel, RunnerLimits


async def growth(paths: list[Path]) -> list[int]:
    """Return by how much each file grows in a moment."""
    before = [path.stat().st_size for path in paths]
    await asyncio.sleep(0.15)
    return [path.stat().st_size - size for path, size in zip(paths, before, strict=True)]


async def all_grow(paths: list[Path]) -> None:
    """Wait until each file has grown."""
    before = [path.stat().st_size for path in paths]
    await until(
        lambda: all(path.stat().st_size > size for path, size in zip(paths, before, strict=True))
    )


MARK = 100_000 + os.getpid()
"""Makes our sleepers differ from those of another test run on this machine."""


def pids_of(command: str) -> list[int]:
    """Return the processes of a command, whoever started them; without pgrep, which not every machine has."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # no process, or gone
            if (entry / "cmdline").read_bytes().split(b"\0")[:-1] == command.encode().split():
                found.append(int(entry.name))
    return found


def children_of(pid: int) -> list[int]:
    """Return the processes that one started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.usefixtures("signal_scopes")
@pytest.mark.parametrize(
    "attack",
    [
        "kill -9 -1",
        "kill -9 $PPID",
        "kill -STOP $PPID",
        "kill -TERM $PPID",
        "kill -INT $PPID; kill -HUP $PPID; kill -USR1 $PPID; kill -SEGV $PPID",
        "kill -9 0",
        "setsid sh -c 'kill -9 -1'",
    ],
)
async def test_no_signal_of_user_code_harms_the_runner(any_runner: Any, attack: str) -> None:
    """From a command and from the interpreter; the next task runs."""
    await any_runner.shell(attack)
    assert (await any_runner.shell("echo fine")).stdout == b"fine\n"

    pointed = attack.replace("$PPID", "%d")
    await any_runner.python(
        f"import os; attack = {pointed!r}; os.system(attack.replace('%d', str(os.getppid())))"
    )
    assert (await any_runner.shell("echo fine")).stdout == b"fine\n"


@pytest.mark.parametrize("call", ["os.kill(os.getppid(), 9)", "os.kill(-1, 9)", "os.killpg(0, 15)"])
@pytest.mark.usefixtures("signal_scopes")
async def test_no_signal_of_the_interpreters_own_harms_the_runner(
    any_runner: Any, call: str
) -> None:
    """The interpreter was forked from the runner, and yet it can't reach it."""
    await any_runner.python(f"import os; {call}")

    assert (await any_runner.python("'fine'")).stdout == b"'fine'\n"


async def test_tasks_can_end_what_earlier_ones_have_started(any_runner: Any) -> None:
    """All user processes of a session are within each other's reach, whoever started them."""
    sleep = f"sleep {MARK}2"
    server = int((await any_runner.shell(f"{sleep} & echo $!")).stdout)
    killed = await any_runner.shell(f"kill {server} && echo killed")
    await any_runner.python(f"import os, subprocess; child = subprocess.Popen({sleep.split()})")
    other = int((await any_runner.python("child.pid")).stdout)
    by_shell = await any_runner.shell(f"kill {other} && echo killed")
    outcome = await any_runner.python("child.wait()")
    last = int((await any_runner.shell(f"{sleep} & echo $!")).stdout)
    by_python = await any_runner.python(f"os.kill({last}, 9); 'killed'")

    assert [killed.stdout, by_shell.stdout, by_python.stdout] == [b"killed\n"] * 2 + [b"'killed'\n"]
    assert outcome.stdout == b"-15\n"


@pytest.mark.parametrize("file", ["mem", "environ", "fd/0", "maps"])
async def test_the_runners_memory_is_shut(start: Any, as_pid_1: list[str], file: str) -> None:
    """A process of the same uid can't read it; shown without capabilities, which no sandbox has."""
    kit = await start(*as_pid_1, "setpriv", "--bounding-set=-all", "--inh-caps=-all").connect()

    outcome = await kit.shell(f"(: < /proc/self/{file}) && (: < /proc/1/{file}) || echo no")

    assert b"Permission denied" in outcome.stderr
    assert b"/proc/1/" in outcome.stderr
    assert outcome.stdout == b"no\n"
    await kit.channel.close()


async def test_frozen_processes_stand_still_and_go_on_when_thawed(any_runner: Any) -> None:
    """All of them: the task's, those in sessions of their own, those of ended tasks, the interpreter."""
    loop = "while :; do echo x >> {0}; sleep 0.01; done"
    await any_runner.shell(
        f"setsid sh -c '{loop.format('one')}' & ({loop.format('two')}) & sleep 0.1"
    )
    await any_runner.python(
        "import threading, time\n"
        "def write():\n    while True:\n        open('three', 'a').write('x'); time.sleep(0.01)\n"
        "threading.Thread(target=write, daemon=True).start(); time.sleep(0.1)"
    )
    running = asyncio.create_task(any_runner.shell(loop.format("four")))
    files = [any_runner.workspace / name for name in ("one", "two", "three", "four")]
    await until(lambda: all(file.exists() for file in files))

    await all_grow(files)
    await any_runner.channel.freeze()
    assert await growth(files) == [0, 0, 0, 0]
    await any_runner.channel.thaw()
    await all_grow(files)

    any_runner.channel.stop(0)
    assert (await running).exit.signal == signal.SIGKILL


async def test_a_frozen_task_can_be_killed(any_runner: Any) -> None:
    """Giving up does not need a thaw."""
    running = asyncio.create_task(any_runner.shell("sleep 60"))
    await asyncio.sleep(0.2)
    await any_runner.channel.freeze()
    any_runner.channel.stop(0)

    assert (await running).exit.signal == signal.SIGKILL
    await any_runner.channel.thaw()


@pytest.mark.parametrize("way", ["BYE", "the channel closes", "SIGTERM"])
async def test_the_end_of_the_runner_is_the_end_of_all_below_it(any_runner: Any, way: str) -> None:
    """However it ends; also for processes in sessions of their own, and stopped ones."""
    sleep = f"sleep {MARK}1"
    await any_runner.shell(f"setsid {sleep} & ({sleep} &) ; {sleep} & sleep 0.1; kill -STOP $!")
    await any_runner.python(f"import subprocess; p = subprocess.Popen({sleep.split()})")
    assert len(pids_of(sleep)) == 4

    if way == "BYE":
        await any_runner.channel.close()
    elif way == "SIGTERM":
        children = children_of(any_runner.process.pid)
        os.kill(children[0] if any_runner.as_pid_1 else any_runner.process.pid, signal.SIGTERM)
        await asyncio.wait_for(any_runner.channel.wait_lost(), 10)
    else:
        any_runner.channel._wire._transport.abort()  # no orderly word: as when the sidecar dies

    assert await asyncio.to_thread(any_runner.process.wait, 10) == 0
    assert pids_of(sleep) == []


async def test_a_runner_can_come_to_its_sidecar_by_a_socket_path(tmp_path: Path) -> None:
    """Where sidecar and sandbox are two containers that share a volume; the sidecar may be late."""
    path = tmp_path / "channel"
    process = subprocess.Popen(  # noqa: ASYNC220 - does not block
        [
            sys.executable,
            "-m",
            "sandbox_runner",
            "--connect",
            str(path),
            "--workspace",
            str(tmp_path),
        ]
    )
    await asyncio.sleep(0.2)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        server.setblocking(False)
        accepted, _ = await asyncio.wait_for(asyncio.get_running_loop().sock_accept(server), 10)
    channel = await RunnerChannel.open(accepted.detach())

    assert channel.hello.python == sys.version.split()[0]
    await channel.close()
    assert await asyncio.to_thread(process.wait, 10) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--fd", "5"],
        ["--workspace", "."],
        ["--fd", "1", "--connect", "x", "--workspace", "."],
        ["--help"],
    ],
)
def test_wrong_arguments_are_told_how_it_is_started(arguments: list[str]) -> None:
    """Exit code 1 and one line."""
    run = subprocess.run(
        [sys.executable, "-m", "sandbox_runner", *arguments],
        capture_output=True,
        check=False,
        timeout=20,
    )

    assert (run.returncode, run.stderr.startswith(b"usage: ")) == (1, True)


async def test_a_task_waits_for_the_thaw_however_long_that_takes(start: Any) -> None:
    """Neither a task that comes while frozen nor one caught before it began counts as late."""
    kit = start()
    kit.channel = await RunnerChannel.open(kit.socket.detach(), RunnerLimits(start_s=0.3))
    caught = asyncio.create_task(kit.python("'caught'"))
    await asyncio.sleep(0)
    await kit.channel.freeze()
    late = asyncio.create_task(kit.shell("echo late"))
    await asyncio.sleep(0.8)
    await kit.channel.thaw()

    assert [(await caught).stdout, (await late).stdout] == [b"'caught'\n", b"late\n"]
    await kit.channel.close()
