"""Commands, run by a real runner."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

import pytest

from worker_agent.adapters.runner import Run, Watch


async def test_a_command_writes_to_both_streams_and_ends_with_its_code(any_runner: Any) -> None:
    """Streams stay apart; the exit code is the program's."""
    end, stdout, stderr, started = await any_runner.shell("echo out; echo err >&2; exit 7")

    assert (end.exit_code, end.signal, end.error) == (7, None, None)
    assert (stdout, stderr) == (b"out\n", b"err\n")
    assert abs(started[0] - time.time_ns()) < 10 * 10**9


async def test_a_signal_is_told_apart_from_an_exit_code(any_runner: Any) -> None:
    """Code 137 and signal 9 are not the same news."""
    killed = await any_runner.shell("kill -9 $$")
    exited = await any_runner.shell("exit 137")

    assert (killed.exit.exit_code, killed.exit.signal) == (None, 9)
    assert (exited.exit.exit_code, exited.exit.signal) == (137, None)


async def test_arguments_arrive_as_they_are(runner: Any) -> None:
    """No shell touches an argv."""
    outcome = await runner.run(kind="command", argv=("printf", "%s|", "a b", "$HOME", "*", "é"))

    assert outcome.stdout == "a b|$HOME|*|é|".encode()


async def test_the_environment_is_the_given_and_the_defaults(runner: Any) -> None:
    """Nothing of the node's environment is in it."""
    outcome = await runner.run(kind="command", argv=("env",), env={"KEY": "a=b", "LANG": "C"})

    env = dict(line.split("=", 1) for line in outcome.stdout.decode().splitlines())
    assert env.pop("PATH")
    workspace = str(runner.workspace)
    assert env == {
        "HOME": workspace,
        "WORKSPACE": workspace,
        "LANG": "C",
        "PYTHONUNBUFFERED": "1",
        "KEY": "a=b",
    }


async def test_a_command_starts_in_the_workspace_or_below(runner: Any) -> None:
    """`cwd` may be relative, or absolute and inside."""
    (runner.workspace / "sub").mkdir()

    assert (await runner.shell("pwd")).stdout.decode().strip() == str(runner.workspace)
    for cwd in ("sub", f"{runner.workspace}/sub"):
        outcome = await runner.shell("pwd", cwd=cwd)
        assert outcome.stdout.decode().strip() == str(runner.workspace / "sub")


@pytest.mark.parametrize("cwd", ["..", "/", "out", "file", "missing"])
async def test_a_directory_outside_or_none_is_refused_by_name(runner: Any, cwd: str) -> None:
    """Nothing runs, and the message says which directory."""
    (runner.workspace / "out").symlink_to("/usr")
    (runner.workspace / "file").touch()

    outcome = await runner.shell("echo ran", cwd=cwd)

    assert outcome.exit.error.code == "exec_bad_cwd"
    assert cwd in outcome.exit.error.message
    assert (outcome.stdout, outcome.started_ns) == (b"", [])


async def test_standard_input_is_empty(runner: Any) -> None:
    """A program that asks does not hang."""
    assert (await runner.shell("cat; echo done")).stdout == b"done\n"


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("no-such-program",), "exec_not_found"),
        (("./missing",), "exec_not_found"),
        (("./plain",), "exec_not_executable"),
        (("plain",), "exec_not_executable"),
        (("./dangling",), "exec_not_executable"),
        (("./directory",), "exec_not_executable"),
        (("./nonsense",), "exec_not_executable"),
        (("true", "x" * 300_000), "exec_too_long"),
        (("true", "a\0b"), "exec_invalid"),
    ],
)
async def test_what_cannot_be_started_is_told_by_its_reason(
    any_runner: Any, argv: tuple[str, ...], code: str
) -> None:
    """Nothing ran: no STARTED, no exit code, but a reason and the program's name."""
    (any_runner.workspace / "plain").write_text("#!/bin/sh\n")
    for name, text in (("dangling", "#!/no/such/interpreter\n"), ("nonsense", "\x7fELF")):
        (any_runner.workspace / name).write_text(text)
        (any_runner.workspace / name).chmod(0o755)
    (any_runner.workspace / "directory").mkdir()

    outcome = await any_runner.run(
        kind="command", argv=argv, env={"PATH": f"{any_runner.workspace}:/bin:/usr/bin"}
    )

    assert (outcome.exit.error.code, outcome.exit.exit_code, outcome.started_ns) == (code, None, [])
    assert argv[0].lstrip("./") in outcome.exit.error.message
    assert (await any_runner.shell("echo fine")).stdout == b"fine\n"


async def test_a_program_is_looked_up_in_the_path_that_was_given(runner: Any) -> None:
    """The task's PATH counts, not the runner's."""
    program = runner.workspace / "bin" / "mine"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho mine\n")
    program.chmod(0o755)

    outcome = await runner.run(kind="command", argv=("mine",), env={"PATH": "bin:/usr/bin:/bin"})

    assert outcome.stdout == b"mine\n"


async def test_signals_start_at_their_defaults(any_runner: Any) -> None:
    """What the runner blocks or Python ignores is not handed down."""
    outcome = await any_runner.shell("grep -E '^Sig(Blk|Ign)' /proc/self/status")

    blocked, ignored = (int(line.split()[1], 16) for line in outcome.stdout.decode().splitlines())
    libc_own = (
        0b11 << 31
    )  # 32 and 33: glibc's posix_spawn ignores them, its start-up sets them anew
    assert (blocked, ignored & ~libc_own) == (0, 0)


async def test_a_program_gets_no_descriptor_of_the_runners(any_runner: Any) -> None:
    """Only 0, 1, 2 (and the one that `ls` opens)."""
    assert (await any_runner.shell("exec ls /proc/self/fd")).stdout.split() == [
        b"0",
        b"1",
        b"2",
        b"3",
    ]


async def test_stop_interrupts_first_and_kills_after_the_grace(any_runner: Any) -> None:
    """A task that handles SIGINT ends by its own; one that ignores it is killed."""
    for trap, expected in (("exit 3", (3, None)), ("", (None, 9))):
        script = f"trap '{trap}' INT; echo up; while :; do sleep 0.05; done"
        running = asyncio.create_task(any_runner.shell(script))
        await any_runner.wrote.wait()
        any_runner.channel.stop(0.5)
        end = (await running).exit
        assert (end.exit_code, end.signal) == expected


async def test_stop_reaches_the_whole_group(runner: Any) -> None:
    """Children of the task's process are killed with it, so the pipe closes at once."""
    script = "sleep 60 & first=$!; sleep 60 & echo $first $!; wait"
    running = asyncio.create_task(runner.shell(script))
    await runner.wrote.wait()
    runner.channel.stop(0)
    stopped = await running

    assert stopped.exit.signal == signal.SIGKILL
    children = stopped.stdout.decode().split()
    assert len(children) == 2
    look = f"for pid in {' '.join(children)}; do kill -0 $pid && echo $pid; done"
    async with asyncio.timeout(15):  # killed, they are gone when the runner has reaped them
        while (await runner.shell(look)).stdout:
            pass


async def test_stop_without_a_task_does_nothing(runner: Any) -> None:
    """A stop that crosses the task's end hits nobody."""
    runner.channel.stop(0)
    await runner.shell("true")
    runner.channel.stop(5)

    assert (await runner.shell("sleep 0.1; echo fine")).stdout == b"fine\n"


async def test_a_cancelled_run_kills_its_task_and_the_next_one_waits_for_that(runner: Any) -> None:
    """The channel stays usable, and nothing of the old task shows up in the new one."""
    running = asyncio.create_task(runner.shell("echo old; sleep 60"))
    await runner.wrote.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert (await runner.shell("echo new")).stdout == b"new\n"


async def test_a_watcher_that_fails_ends_the_task(runner: Any) -> None:
    """Its exception comes out of `run`; the channel stays usable."""

    async def on_started(_at_ns: int) -> None:
        raise LookupError("broken watcher")

    async def on_output(_stream: str, _data: bytes) -> None:
        pass

    with pytest.raises(LookupError, match="broken watcher"):
        await runner.channel.run(
            Run(task="w", kind="command", shell="sleep 60"), Watch(on_started, on_output)
        )

    assert (await runner.shell("echo fine")).stdout == b"fine\n"


async def test_orphans_are_reaped(any_runner: Any) -> None:
    """Children whose parents have ended leave no zombies behind."""
    await any_runner.shell("for i in 1 2 3 4 5; do (setsid sleep 0.1 &) ; done")
    for _ in range(100):
        states = (
            (await any_runner.shell("ps -o state=,comm= --ppid $PPID")).stdout.decode().splitlines()
        )
        sleepers = [line for line in states if line.endswith("sleep")]
        zombies = [line for line in states if line.startswith("Z")]
        if not sleepers:
            break
        await asyncio.sleep(0.05)

    assert [line for line in zombies if "sleep" in line] == []
