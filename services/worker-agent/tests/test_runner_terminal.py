"""Commands in a terminal, run by a real runner: what the kernel does for a terminal happens, and what nobody may do does not."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import signal
from typing import Any

from sitting import Sitting, children_of, terminals_of

from sandbox_runner import protocol
from shared.testing.wait import until


async def test_a_shell_has_its_terminal_and_says_with_what_it_ended(any_runner: Any) -> None:
    """It is the controlling one: /dev/tty leads there; echo, prompt and output come as one stream."""
    sitting = Sitting(any_runner.channel, "t")
    await sitting.see("> ")

    sitting.type("tty && test -t 0 -a -t 1 -a -t 2 && echo to-$((1+1)) >/dev/tty\n")
    await sitting.see("to-2\r\n")
    sitting.type("exit 7\n")

    end = await sitting.ended()
    assert (end.exit_code, end.signal, end.error) == (7, None, None)


async def test_what_is_pressed_reaches_the_foreground_and_not_the_shell(any_runner: Any) -> None:
    """^C ends a sleep, ^Z stops one and `fg` goes on with it, ^D ends the shell."""
    sitting = Sitting(any_runner.channel, "t")
    await sitting.see("> ")

    sitting.type("sh -c 'echo be''fore; exec sleep 1000'\n")
    await sitting.see("before\r\n")
    sitting.type(b"\x03")
    await sitting.see("> ")
    # Without children: a shell that is stopped where it waits for a new one's exec is not seen to be stopped.
    goes_on = "trap \"echo on ag''ain\" CONT; echo ag''ain; while :; do read line; done"
    sitting.type(f"sh -c '{goes_on}'\n")
    await sitting.see("again\r\n")
    sitting.type(b"\x1a")
    await sitting.see("> ")
    sitting.type("fg\n")
    await sitting.see("on again\r\n")  # it was continued, and that after it got the terminal
    sitting.type(b"\x03")
    await sitting.see("> ")
    sitting.type(b"\x04")

    assert (await sitting.ended()).signal is None


async def test_a_size_is_there_at_the_start_and_changes_are_told(any_runner: Any) -> None:
    """The kernel sends SIGWINCH to the foreground."""
    line = "stty size; trap 'stty size; exit 3' WINCH; echo set; while :; do sleep 0.05; done"
    sitting = Sitting(any_runner.channel, "t", argv=("/bin/sh", "-c", line))
    await sitting.see("24 80\r\nset\r\n")

    sitting.channel.terminal.resize(50, 132)

    await sitting.see("50 132\r\n")
    assert (await sitting.ended()).exit_code == 3


async def test_a_stop_hangs_the_terminal_up(any_runner: Any) -> None:
    """A shell at its prompt ends by it, and so does what it has stopped; SIGINT would only give it a new line."""
    sitting = Sitting(any_runner.channel, "t")
    await sitting.see("> ")
    sitting.type("sh -c 'echo u''p; exec sleep 1000'\n")
    await sitting.see("up\r\n")
    sitting.type(b"\x1a")
    await sitting.see("> ")

    sitting.channel.stop(10.0)

    end = await sitting.ended()
    assert end.signal == signal.SIGHUP or end.exit_code == 128 + signal.SIGHUP


async def test_a_program_that_ignores_the_hang_up_is_killed(any_runner: Any) -> None:
    """After the grace, with whatever is in the foreground."""
    sitting = Sitting(
        any_runner.channel, "t", argv=("/bin/sh", "-c", "trap '' HUP; echo set; sleep 1000")
    )
    await sitting.see("set\r\n")

    sitting.channel.stop(0.2)

    assert (await sitting.ended()).signal == signal.SIGKILL


async def test_input_for_a_program_that_does_not_read_is_bounded(any_runner: Any) -> None:
    """A window is all that is taken; ^C would wait behind it, so the stop comes another way."""
    sitting = Sitting(
        any_runner.channel, "t", argv=("/bin/sh", "-c", "stty raw -echo; echo set; sleep 1000")
    )
    await sitting.see("set")
    given = 0
    for _ in range(100):
        room = sitting.channel.terminal.room_bytes
        sitting.type(b"x" * room)
        given += room
        await asyncio.sleep(0.005)

    assert sitting.channel.terminal.room_bytes == 0
    assert given <= protocol.INPUT_WINDOW_BYTES + (256 << 10)  # what the kernel holds is beyond it
    assert (await any_runner.channel.files.list(".")).truncated is False
    sitting.channel.stop(0.0)
    assert (await sitting.ended()).signal == signal.SIGKILL


async def test_pasted_megabytes_arrive_whole_where_the_program_reads(any_runner: Any) -> None:
    """Flow control loses and doubles nothing."""
    size = 3 << 20
    line = f"stty raw -echo; echo set; head -c {size} | sha256sum; echo done"
    sitting = Sitting(any_runner.channel, "t", argv=("/bin/sh", "-c", line))
    await sitting.see("set")
    data = os.urandom(size)
    at = 0
    async with asyncio.timeout(20):
        while at < size:
            room = min(sitting.channel.terminal.room_bytes, size - at)
            sitting.type(data[at : at + room])
            at += room
            await asyncio.sleep(0.001)

    await sitting.see(hashlib.sha256(data).hexdigest())
    assert (await sitting.ended()).exit_code == 0


async def test_a_program_waits_while_nobody_looks(any_runner: Any) -> None:
    """Output flows under the same window as ever; all of it comes once somebody looks again."""
    size = 4 << 20
    sitting = Sitting(
        any_runner.channel, "t", argv=("/bin/sh", "-c", f"head -c {size} /dev/zero; echo the-end")
    )
    await sitting.read(False)
    await asyncio.sleep(0.3)
    assert len(sitting.seen) <= protocol.WINDOW_BYTES

    await sitting.read(True)

    await sitting.see("the-end")
    assert (await sitting.ended()).exit_code == 0


async def test_input_after_the_end_is_not_the_next_tasks(any_runner: Any) -> None:
    """Keys for a terminal that is gone are nobody's."""
    first = Sitting(any_runner.channel, "first", argv=("true",))
    await first.started.wait()
    if first.channel.terminal.room_bytes:
        first.type("echo wrong\n")
    assert (await first.ended()).exit_code == 0
    any_runner.channel._wire.send(protocol.encode(protocol.INPUT, b"echo wrong\n"))

    second = Sitting(any_runner.channel, "second")
    await second.see("> ")
    second.type("echo ri''ght; exit\n")
    seen = await second.see("right\r\n")

    assert b"wrong" not in seen
    await second.ended()
    assert (await any_runner.shell("cat")).stdout == b""  # a task without a terminal reads none


async def test_what_holds_a_terminal_after_its_end_is_told_that_it_is_gone(any_runner: Any) -> None:
    """A background process lives on, its writes are refused, and it holds up nobody's end."""
    late = "(sleep 0.5; echo late || echo refused > said) 2>/dev/null"
    sitting = Sitting(
        any_runner.channel, "t", argv=("/bin/sh", "-c", f"trap '' HUP; {late} & echo over")
    )

    await sitting.see("over\r\n")
    assert (await sitting.ended()).exit_code == 0
    await until((any_runner.workspace / "said").exists)


async def test_frozen_programs_take_no_keys_and_go_on_as_they_were(any_runner: Any) -> None:
    """The shell does not take the stop of its job for a ^Z."""
    sitting = Sitting(any_runner.channel, "t")
    await sitting.see("> ")
    sitting.type("echo up; cat\n")
    await sitting.see("up\r\n")

    await any_runner.channel.freeze()
    sitting.type("first\n")
    await sitting.see("first\r\n")  # the kernel's echo
    await asyncio.sleep(0.1)
    assert b"first" not in sitting.seen
    await any_runner.channel.thaw()

    await sitting.see("first\r\n")
    sitting.type("second\n")
    await sitting.see("second\r\nsecond\r\n")
    sitting.channel.stop(0.0)
    await sitting.ended()


async def test_a_program_that_is_not_there_leaves_no_terminal_behind(any_runner: Any) -> None:
    """The reason is told as without a terminal; nothing of the pair stays open."""
    for number in range(5):
        end = await Sitting(any_runner.channel, f"t{number}", argv=("no-such-program",)).ended()
        assert end.error is not None
        assert end.error.code == "exec_not_found"
    end = await Sitting(any_runner.channel, "script", argv=("/etc/hostname",)).ended()
    assert end.error is not None
    assert end.error.code == "exec_not_executable"
    assert terminals_of(any_runner.process.pid) == []


async def test_where_descriptors_run_out_a_terminal_fails_and_the_runner_goes_on(
    any_runner: Any,
) -> None:
    """At whichever of them it is: the task has an end that says so, or it runs."""
    pid = any_runner.process.pid
    if any_runner.as_pid_1:
        (pid,) = children_of(pid)
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    codes = []
    for room in range(3, 24):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (room, most))
        sitting = Sitting(any_runner.channel, f"t{room}", argv=("/bin/true",))
        end = await sitting.ended()
        codes.append(None if end.error is None else end.error.code)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))

    assert codes[0] is not None
    assert codes[-1] is None
    assert (await Sitting(any_runner.channel, "last", argv=("/bin/true",)).ended()).exit_code == 0


async def test_who_types_before_there_is_a_terminal_is_told_that_there_is_no_room_yet(
    any_runner: Any,
) -> None:
    """Else the runner would drop it; a size that is said so early is there at the start."""
    until_resized = 'until [ "$(stty size)" = "50 132" ]; do sleep 0.01; done'
    terminal = any_runner.channel.terminal
    sitting = Sitting(any_runner.channel, "t", argv=("/bin/sh", "-c", until_resized))
    await asyncio.sleep(0)
    early = terminal.room_bytes
    terminal.resize(50, 132)
    await sitting.started.wait()

    assert (early, terminal.room_bytes) == (0, protocol.INPUT_WINDOW_BYTES)
    assert (await sitting.ended()).exit_code == 0
    terminal.resize(20, 20)  # of nothing; and the next one is not of that size
    after = Sitting(any_runner.channel, "u", argv=("/bin/stty", "size"))
    await after.see("24 80")
    await after.ended()
