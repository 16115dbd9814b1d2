"""Life and death of the interpreter, and what user code can do to it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shared.testing.wait import until

FIRST = "no interpreter was running in this sandbox yet"

DESCRIPTORS_OF_A_RUNNER = 12
"""Three standard ones, channel, signals, workspace, /dev/null, the interpreter's socket and next pipes, and one to spare."""


def open_descriptors(pid: int) -> int:
    """Count the descriptors of a process that may be shut to us: since Linux 6.2 the folder's size is their number."""
    folder = Path(f"/proc/{pid}/fd")
    return folder.stat().st_size or len(list(folder.iterdir()))


async def test_code_that_swallows_interrupts_is_killed_and_the_next_interpreter_says_so(
    runner: Any,
) -> None:
    """The grace ends; the state is lost and the user told why."""
    swallow = "import time\nwhile True:\n    try: print('up', flush=True); time.sleep(60)\n    except KeyboardInterrupt: pass"
    running = asyncio.create_task(runner.python(swallow))
    await runner.wrote.wait()
    runner.channel.stop(0.3)
    killed = (await running).exit
    after = (await runner.python("'time' in dir()")).exit

    assert (killed.exit_code, killed.signal, killed.interpreter.generation) == (None, 9, 1)
    assert after.interpreter.generation == 2
    assert (
        after.interpreter.fresh
        == "generation 1 of the interpreter was killed by signal 9 (SIGKILL) in task t1"
    )


@pytest.mark.parametrize(
    ("death", "exit_code", "number", "how"),
    [
        ("os._exit(9)", 9, None, "exited with code 9"),
        ("os.kill(os.getpid(), 9)", None, 9, "was killed by signal 9 (SIGKILL)"),
        ("import ctypes; ctypes.string_at(0)", None, 11, "was killed by signal 11 (SIGSEGV)"),
        ("os.abort()", None, 6, "was killed by signal 6 (SIGABRT)"),
    ],
)
async def test_a_dead_interpreter_is_that_tasks_end_and_the_next_is_fresh(
    any_runner: Any, death: str, exit_code: int | None, number: int | None, how: str
) -> None:
    """Output before the death arrives; the next task starts from nothing and is told why."""
    first = await any_runner.python("1")
    dead = await any_runner.python(f"import os\nos.write(1, b'last words')\n{death}")
    fresh = await any_runner.python("'os' in dir()")

    assert (first.exit.interpreter.generation, first.exit.interpreter.fresh) == (1, FIRST)
    assert (dead.exit.exit_code, dead.exit.signal, dead.stdout) == (
        exit_code,
        number,
        b"last words",
    )
    assert (dead.exit.interpreter.generation, dead.exit.interpreter.fresh) == (1, None)
    assert fresh.stdout == b"False\n"
    assert fresh.exit.interpreter.generation == 2
    assert fresh.exit.interpreter.fresh == f"generation 1 of the interpreter {how} in task t2"


async def test_an_interpreter_that_dies_between_tasks_is_replaced(runner: Any) -> None:
    """A thread of the user's ends it while no task runs."""
    ending = "import os, threading; threading.Timer(0.2, os._exit, [4]).start(); os.getpid()"
    pid = int((await runner.python(ending)).stdout)
    await until(lambda: not Path(f"/proc/{pid}").exists())
    fresh = await runner.python("1")

    assert (fresh.exit.exit_code, fresh.stdout) == (0, b"1\n")
    assert (
        fresh.exit.interpreter.fresh
        == "generation 1 of the interpreter exited with code 4 between tasks"
    )


@pytest.mark.parametrize("first", ["kept = 1", "kept = 1; import os; os.closerange(0, 3)"])
async def test_code_that_closes_all_descriptors_ends_orderly(runner: Any, first: str) -> None:
    """Neither the runner nor the result suffers; the interpreter, cut off, is replaced."""
    await runner.python(first)
    closer = await runner.python("import os\nprint('before', flush=True)\nos.closerange(0, 1024)")
    after = await runner.python("print('after')")

    assert (closer.exit.exit_code, closer.stdout) == (0, b"before\n")
    assert (after.exit.exit_code, after.stdout) == (0, b"after\n")
    assert after.exit.interpreter.generation == 2


async def test_code_that_reuses_our_descriptors_number_gets_nothing_of_ours_in_its_file(
    runner: Any,
) -> None:
    """After closing everything, user code may hold a file where our socket was."""
    await runner.python(
        "import os\nos.closerange(3, 1024)\n"
        "file = os.open('mine', os.O_CREAT | os.O_WRONLY)\n"
        "for number in range(90, 120): os.dup2(file, number)"
    )

    assert (runner.workspace / "mine").read_bytes() == b""


async def test_a_fork_that_runs_on_has_no_say(any_runner: Any) -> None:
    """User code may fork and let both copies come to the end of the task."""
    outcome = await any_runner.python(
        "import os\npid = os.fork()\nprint('parent' if pid else 'child', flush=True)\nif pid: os.waitpid(pid, 0)"
    )

    assert sorted(outcome.stdout.split()) == [b"child", b"parent"]
    assert outcome.exit.exit_code == 0
    assert (await any_runner.python("pid > 0")).stdout == b"True\n"


async def test_many_tasks_leak_no_descriptors(runner: Any) -> None:
    """Neither in the runner nor in the interpreter."""
    count = "import os; len(os.listdir('/proc/self/fd'))"
    before = (await runner.python(count)).stdout
    for _ in range(50):
        await runner.python("1")
        await runner.shell("true")
    after = (await runner.python(count)).stdout
    for _ in range(100):  # a task's pipes may be closed a moment after its end
        if open_descriptors(runner.process.pid) <= DESCRIPTORS_OF_A_RUNNER:
            break
        await asyncio.sleep(0.05)

    assert after == before
    assert open_descriptors(runner.process.pid) <= DESCRIPTORS_OF_A_RUNNER


CONTROL = "import os, stat, struct\ncontrol = next(n for n in range(90, 200) if os.path.exists(f'/proc/self/fd/{n}') and stat.S_ISSOCK(os.fstat(n).st_mode))\n"


@pytest.mark.parametrize(
    "forgery",
    [
        "os.urandom(200)",
        "struct.pack('>IB', 2**31, 1)",
        "struct.pack('>IBII', 8, 1, 0, 0)",
        "struct.pack('>IBII', 8, 1, os.open('/dev/zero', os.O_RDONLY), 9999)",
        "struct.pack('>IBII', 8, 1, 9999, 9999)",
        "struct.pack('>IBII', 8, 1, *os.pipe())",
        "struct.pack('>IBQ', 8, 2, 0)",
        "struct.pack('>IBB', 1, 3, 0)",
        "struct.pack('>IBB', 1, 3, 0) * 2",
        "struct.pack('>IBB', 1, 3, 0) + struct.pack('>IBQ', 8, 2, 0)",
        "struct.pack('>IB', 0, 3)",
        "struct.pack('>IB', 5, 3)",
    ],
)
async def test_code_that_speaks_for_its_interpreter_harms_itself_only(
    any_runner: Any, forgery: str
) -> None:
    """It finds our socket and forges what it likes: its task ends in some way, and later ones run."""
    async with asyncio.timeout(20):
        forged = await any_runner.python(
            f"{CONTROL}os.write(control, {forgery})\nimport time; time.sleep(0.2)"
        )
        command = await any_runner.shell("echo fine")
        after = [await any_runner.python("'fine'") for _ in range(3)]

    assert forged.exit.error is None
    assert command == (command.exit, b"fine\n", b"", command.started_ns)
    assert after[-1].stdout == b"'fine'\n"


async def test_an_interpreter_prepared_ahead_is_fresh_to_its_first_task(any_runner: Any) -> None:
    """The fork happens earlier; nothing else is different. Asking again changes nothing."""
    any_runner.channel.prepare_python()
    any_runner.channel.prepare_python()
    first = await any_runner.python("import os; os.getpid()")
    any_runner.channel.prepare_python()
    second = await any_runner.python("os.getpid()")

    assert first.stdout == second.stdout
    assert (first.exit.interpreter.generation, first.exit.interpreter.fresh) == (1, FIRST)
    assert (second.exit.interpreter.generation, second.exit.interpreter.fresh) == (1, None)


async def test_an_interpreter_that_breaks_before_a_task_begins_costs_that_task_nothing(
    any_runner: Any,
) -> None:
    """Its doer was an earlier task: the later one runs in a fresh interpreter and is told why."""
    await any_runner.python(
        "import os, threading, time\n"
        "def close():\n    time.sleep(0.2); os.closerange(3, 60); os.mkdir('closed')\n"
        "threading.Thread(target=close).start()"
    )
    await until((any_runner.workspace / "closed").exists)
    outcome = await any_runner.python("print('ran')")

    assert (outcome.exit.exit_code, outcome.stdout) == (0, b"ran\n")
    assert outcome.exit.interpreter.generation == 2
    assert outcome.exit.interpreter.fresh.startswith("generation 1 of the interpreter exited")


async def test_a_task_that_is_stopped_before_it_begins_is_not_begun_anew(runner: Any) -> None:
    """Killing the interpreter under it is what was asked for."""
    running = asyncio.create_task(runner.python("import time; time.sleep(60)"))
    await asyncio.sleep(0)
    runner.channel.stop(0)
    outcome = await running  # begun anew, it would outlive the channel's patience

    assert outcome.exit.exit_code is None
    assert (await runner.python("'next'")).stdout == b"'next'\n"


async def test_an_interrupt_that_comes_before_the_task_begins_interrupts_it_then(
    runner: Any,
) -> None:
    """The polite way does not get lost while the interpreter is being forked."""
    running = asyncio.create_task(runner.python("import time; time.sleep(60)"))
    await asyncio.sleep(0)
    runner.channel.stop(20)
    outcome = await running

    assert (outcome.exit.exit_code, outcome.exit.signal) == (1, None)
    assert outcome.stderr.endswith(b"KeyboardInterrupt\n")


async def test_code_that_only_computes_is_interrupted(any_runner: Any) -> None:
    """No system call of its own is broken off: the interpreter itself has to notice the signal."""
    running = asyncio.create_task(any_runner.python("while True: pass"))
    await any_runner.began.wait()
    any_runner.channel.stop(20)
    outcome = await running

    assert (outcome.exit.exit_code, outcome.exit.signal) == (1, None)
    assert outcome.stderr.endswith(b"KeyboardInterrupt\n")
    assert (await any_runner.python("'same'")).exit.interpreter.generation == 1
