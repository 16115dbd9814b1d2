"""What user code and a runner that it has taken over try by way of terminals."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sitting import Sitting, terminals_of

from sandbox_runner import protocol
from shared.testing.wait import until
from worker_agent.adapters.runner import ProtocolViolation, RunnerChannel

LANDLOCKED = """
import ctypes, os, struct, sys
call, rights = ctypes.CDLL(None, use_errno=True).syscall, (1 << 1) | (1 << 2)  # to write and to read files
ruleset = call(444, struct.pack("Q", rights), 8, 0)
places = [f"/{name}" for name in os.listdir("/") if name != "dev"] + ["/dev/null", "/dev/tty", "/dev/urandom"]
for place in places:
    fd = os.open(place, os.O_PATH)
    call(445, ruleset, 1, struct.pack("=Qi", rights, fd), 0)
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
assert call(446, ruleset, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Runs a command that may open no terminal, as the class `landlock` has it."""


@pytest.fixture
async def runner_landlocked(start: Any) -> AsyncIterator[Any]:
    """A runner that may open no terminal."""
    kit = await start(sys.executable, "-c", LANDLOCKED).connect()
    yield kit
    await kit.channel.close()


@pytest.mark.usefixtures("signal_scopes")
async def test_where_a_sandbox_may_open_no_terminal_its_sidecar_does(
    runner_landlocked: Any,
) -> None:
    """Time after time; both ends are the runner's alone, and the terminals of the host stay shut."""
    for number in range(3):
        sitting = Sitting(runner_landlocked.channel, f"t{number}")
        await sitting.see("> ")
        sitting.type("cat /dev/ptmx; cat $(tty); echo do''ne >/dev/tty\n")
        seen = await sitting.see("done\r\n")
        assert seen.count(b"ermission denied") == 2
        assert terminals_of(os.getpid(), with_children=False) == []
        sitting.type("exit 5\n")
        assert (await sitting.ended()).exit_code == 5
    assert terminals_of(runner_landlocked.process.pid) == []


WITHOUT_PROC = """
import ctypes, os, struct, sys
call, rights = ctypes.CDLL(None, use_errno=True).syscall, 1 << 3  # to list directories
ruleset = call(444, struct.pack("Q", rights), 8, 0)
for name in os.listdir("/"):
    if name != "proc" and os.path.isdir(f"/{name}"):
        fd = os.open(f"/{name}", os.O_PATH)
        call(445, ruleset, 1, struct.pack("=Qi", rights, fd), 0)
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
assert call(446, ruleset, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Runs a command that may not list /proc, as the class `landlock` has it."""


@pytest.mark.usefixtures("signal_scopes")
async def test_a_sandbox_that_can_not_see_its_processes_is_frozen_all_the_same(start: Any) -> None:
    """Before each save: a runner that failed at it took the session's variables with it."""
    kit = await start(sys.executable, "-c", WITHOUT_PROC).connect()
    assert b"ermission denied" in (await kit.shell("ls /proc")).stderr
    await kit.shell("(while :; do echo x >> loop; sleep 0.01; done) & sleep 0.1")

    async def grown() -> int:
        before = (kit.workspace / "loop").stat().st_size
        await asyncio.sleep(0.2)
        return (kit.workspace / "loop").stat().st_size - before

    await until(grown)
    await kit.channel.freeze()
    assert await grown() == 0
    await kit.channel.thaw()
    await until(grown)
    assert (await kit.shell("echo fine")).stdout == b"fine\n"
    await kit.channel.close()


async def test_user_code_can_not_type_into_its_own_or_another_terminal(runner: Any) -> None:
    """The kernel's TIOCSTI needs a terminal of one's own; the runner's end can't be had by /proc."""
    code = (
        "import os,glob\n"
        "ppid = os.getppid()\n"
        "try:\n"
        "    print('ends', [os.readlink(p) for p in glob.glob(f'/proc/{ppid}/fd/*')])\n"
        "    os.open(f'/proc/{ppid}/fd/3', os.O_RDWR); print('opened')\n"
        "except OSError as e: print('refused')\n"
    )
    sitting = Sitting(runner.channel, "t", argv=("python3", "-c", code))
    seen = await sitting.see("refused")

    assert b"opened" not in seen
    await sitting.ended()


@pytest.mark.parametrize(
    "attack",
    [
        protocol.encode_count(protocol.INPUT_USED, 1),
        protocol.encode(protocol.INPUT_USED, b""),
        protocol.encode(protocol.NEED_TERMINAL),
    ],
)
async def test_a_runner_that_says_what_no_runner_says_of_terminals_ends_its_pod(
    hostile: Any, attack: bytes
) -> None:
    """More used than given, no count, a terminal for no task."""
    channel, theirs = hostile

    theirs.sendall(attack)

    async with asyncio.timeout(10):
        assert isinstance(await channel.wait_lost(), ProtocolViolation)


@pytest.fixture
async def hostile() -> AsyncIterator[tuple[RunnerChannel, socket.socket]]:
    """A sidecar's channel whose other end is ours."""
    ours, theirs = socket.socketpair()
    hello = b'{"version":%d,"pid":1,"python":"3"}' % protocol.VERSION
    theirs.sendall(protocol.encode(protocol.HELLO, hello))
    channel = await RunnerChannel.open(ours.detach())
    yield channel, theirs
    theirs.close()
    await channel.close()
