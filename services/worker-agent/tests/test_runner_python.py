"""The interpreter that lives on from task to task, forked by a real runner."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

import pytest

from shared.testing.wait import until


async def test_variables_functions_and_imports_live_on(any_runner: Any) -> None:
    """As in a notebook."""
    await any_runner.python("import math\nx = 20\ndef double(n):\n    return 2 * n")
    outcome = await any_runner.python("double(x) + int(math.sqrt(4))")

    assert (outcome.stdout, outcome.exit.exit_code) == (b"42\n", 0)


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("1 + 1", b"2\n"),
        ("1 + 1;", b""),
        ("None", b""),
        ("x = 5", b""),
        ("'a'\n'b'", b"'b'\n"),
        ("for i in range(2): i", b""),
        ("print('p')\n'é\\ud800'", b"p\n'\xc3\xa9\\ud800'\n"),
        ("", b""),
        ("# only a comment", b""),
    ],
)
async def test_the_last_expression_is_shown(runner: Any, code: str, shown: bytes) -> None:
    """Like a notebook cell: its repr, if it isn't None, and not after a semicolon."""
    outcome = await runner.python(code)

    assert (outcome.stdout, outcome.stderr, outcome.exit.exit_code) == (shown, b"", 0)


async def test_a_traceback_shows_source_lines_and_none_of_our_frames(runner: Any) -> None:
    """The user sees their own code, also of a function from an earlier task."""
    await runner.python("def divide(a, b):\n    return a / b")
    outcome = await runner.python(
        "x = 1\ntry:\n    divide(x, 0)\nexcept ZeroDivisionError as error:\n    raise KeyError('k') from error"
    )

    text = outcome.stderr.decode()
    assert outcome.exit.exit_code == 1
    assert "    return a / b" in text
    assert "    divide(x, 0)" in text
    assert "KeyError: 'k'" in text
    assert "direct cause" in text
    assert "sandbox_runner" not in text
    assert [line.split(", ")[0] for line in text.splitlines() if line.startswith("  File")] == [
        '  File "<task 2>"',
        '  File "<task 1>"',
        '  File "<task 2>"',
    ]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = = 1", "SyntaxError"),
        ("x\0y", "null bytes"),
        ("(" * 500 + ")" * 500, "too many nested parentheses"),
        ("def f(): return f()\nf()", "RecursionError"),
        ("class E(Exception):\n    def __str__(self): raise ValueError\nraise E", "E"),
        ("raise ExceptionGroup('g', [ValueError('inner')])", "ValueError: inner"),
        ("input()", "EOFError"),
        ("import sys; sys.exit('told')", "told"),
    ],
)
async def test_an_error_ends_the_task_with_1_and_leaves_the_interpreter_alive(
    runner: Any, code: str, words: str
) -> None:
    """Whatever goes wrong in user code is shown on stderr; variables survive."""
    await runner.python("kept = 1")
    outcome = await runner.python(code)

    assert outcome.exit.exit_code == 1
    assert words in outcome.stderr.decode()
    assert (await runner.python("kept")).stdout == b"1\n"


@pytest.mark.parametrize(
    ("argument", "code"), [("", 0), ("0", 0), ("3", 3), ("256 + 7", 7), ("-1", 255), ("None", 0)]
)
async def test_sys_exit_gives_its_code(runner: Any, argument: str, code: int) -> None:
    """As the operating system would count it; the interpreter lives on."""
    outcome = await runner.python(f"import sys\nkept = 1\nsys.exit({argument})")

    assert (outcome.exit.exit_code, outcome.stderr) == (code, b"")
    assert (await runner.python("kept")).stdout == b"1\n"


async def test_every_way_to_write_arrives_in_order_and_before_the_end(runner: Any) -> None:
    """Python's streams, the descriptor, child processes, C's stdio; without a flush by the user."""
    outcome = await runner.python(
        "import ctypes, os, sys, subprocess\n"
        "print('print', end=' ', flush=True)\n"
        "os.write(1, b'write ')\n"
        "subprocess.run(['echo', '-n', 'child '])\n"
        "os.system('printf \"shell \"')\n"
        "sys.stdout.buffer.write(b'\\xff ')\n"
        "sys.stdout.flush()\n"
        "ctypes.CDLL(None).puts(b'stdio')\n"
        "print('unflushed', end='')\n"
        "print('error', file=sys.stderr, end='')"
    )

    assert outcome.stdout.startswith(b"print write child shell \xff ")
    assert outcome.stdout.split()[5:] == [b"unflushedstdio"]
    assert outcome.stderr == b"error"


async def test_started_comes_right_before_the_first_instruction(runner: Any) -> None:
    """The time it carries is that of the fork, not of the compilation."""
    for _ in range(2):
        outcome = await runner.python("import time\ntime.time_ns()")
        gap_ns = int(outcome.stdout) - outcome.started_ns[0]
        assert 0 <= gap_ns < 5e9


async def test_an_interrupt_reaches_the_code_and_its_children(any_runner: Any) -> None:
    """SIGINT gives KeyboardInterrupt, also while a child process is waited for; the interpreter lives on."""
    for code in (
        "import time; kept = 1; print('up', flush=True); time.sleep(60)",
        "import os; os.system('echo up; exec sleep 60'); 1/0",  # it hears SIGINT once its child is there
    ):
        running = asyncio.create_task(any_runner.python(code))
        await any_runner.wrote.wait()
        any_runner.channel.stop(10)
        outcome = await running
        assert (outcome.exit.exit_code, outcome.exit.signal, outcome.stdout) == (1, None, b"up\n")

    assert (await any_runner.python("kept")).stdout == b"1\n"


async def test_an_interrupt_between_tasks_is_for_nobody(runner: Any) -> None:
    """A stop that crosses the end of its task does not hit the next one."""
    await runner.python("import os, signal; pid = os.getpid()")
    await runner.shell("true")
    for _ in range(20):
        await runner.python("x = 1")
        runner.channel.stop(5)
    outcome = await runner.python("import time; time.sleep(0.1); 'fine'")

    assert (outcome.stdout, outcome.exit.exit_code) == (b"'fine'\n", 0)


async def test_handlers_of_the_users_live_on(runner: Any) -> None:
    """A SIGINT handler set in one task works in the next."""
    await runner.python(
        "import signal, time\nsignal.signal(signal.SIGINT, lambda *_: print('mine'))"
    )
    running = asyncio.create_task(
        runner.python("print('up', flush=True)\ntime.sleep(0.6)\nprint('slept')")
    )
    await runner.wrote.wait()
    runner.channel.signal(signal.SIGINT)

    assert (await running).stdout == b"up\nmine\nslept\n"


async def test_a_child_process_that_lives_on_stays_out_of_later_output(runner: Any) -> None:
    """Each task has pipes of its own, also in the same interpreter."""
    writer = "import subprocess; child = subprocess.Popen('while :; do echo noise; sleep 0.01; done', shell=True)"
    await runner.python(writer)
    later = [(await runner.python("import time; time.sleep(0.1); 'mine'")).stdout for _ in range(3)]

    assert later == [b"'mine'\n"] * 3
    assert (await runner.python("child.poll() is None, child.kill()")).stdout == b"(True, None)\n"


async def test_a_thread_that_prints_between_tasks_prints_to_nobody(runner: Any) -> None:
    """What comes after EXIT is in no task's output."""
    await runner.python(
        "import os, threading\ndef late():\n    print('late', flush=True); os.mkdir('printed')\n"
        "threading.Timer(0.2, late).start()"
    )
    await until((runner.workspace / "printed").exists)

    assert (await runner.python("'next'")).stdout == b"'next'\n"


async def test_a_tasks_environment_is_its_own(runner: Any) -> None:
    """What came with a task goes with it; what code itself has set stays."""
    during = await runner.python(
        "import os\nos.environ['MINE'] = '1'\nos.environ['TOKEN']", env={"TOKEN": "t"}
    )
    after = await runner.python(
        "os.environ.get('TOKEN'), os.environ.get('MINE'), os.environ['HOME']"
    )
    names = await runner.python("sorted(os.environ)")

    assert during.stdout == b"'t'\n"
    assert after.stdout.decode() == f"(None, '1', '{runner.workspace}')\n"
    assert "SECRET" not in names.stdout.decode()


async def test_streams_that_user_code_breaks_are_whole_in_the_next_task(runner: Any) -> None:
    """Closing or replacing them costs that task's own output at most."""
    for line in ("import sys; sys.stdout.close()", "sys.stdout = None", "sys.stderr = 5", "quit()"):
        await runner.python(line)
    outcome = await runner.python(
        "sys.stdout = sys.__stdout__; sys.stderr = sys.__stderr__; print('whole')"
    )

    assert (outcome.stdout, outcome.exit.exit_code) == (b"whole\n", 0)


async def test_modules_in_the_workspace_can_be_imported_and_objects_pickled(runner: Any) -> None:
    """The working directory is on the path, and classes belong to `__main__`."""
    (runner.workspace / "helper.py").write_text("value = 7\n")
    outcome = await runner.python(
        "import helper, pickle\nclass Thing: pass\n"
        "isinstance(pickle.loads(pickle.dumps(Thing())), Thing), helper.value, __name__"
    )

    assert outcome.stdout == b"(True, 7, '__main__')\n"


async def test_processes_by_multiprocessing_work(runner: Any) -> None:
    """Forked workers end by themselves and report to their parent only."""
    outcome = await runner.python(
        "from multiprocessing import get_context\n"
        "def square(n): return n * n\n"
        "with get_context('fork').Pool(2) as pool: print(pool.map(square, range(4)))"
    )

    assert (outcome.stdout, outcome.exit.exit_code) == (b"[0, 1, 4, 9]\n", 0)


async def test_a_megabyte_of_code_runs_in_a_living_interpreter(runner: Any) -> None:
    """A frame that is larger than the socket's buffer passes."""
    await runner.python("x = 0")
    code = "x = '" + "a" * 900_000 + "'\nlen(x)"

    assert (await runner.python(code)).stdout == b"900000\n"


async def test_two_tasks_in_a_row_need_no_fork_between(runner: Any) -> None:
    """The same process serves them; the times are those of the tasks."""
    first = await runner.python("import os; os.getpid()")
    second = await runner.python("os.getpid()")

    assert first.stdout == second.stdout
    assert first.started_ns[0] < second.started_ns[0] < time.time_ns()


async def test_user_code_is_the_main_thread_of_its_process(runner: Any) -> None:
    """Signal handlers and asyncio work as in any script."""
    outcome = await runner.python(
        "import asyncio, signal, threading\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print('signal'))\n"
        "signal.raise_signal(signal.SIGUSR1)\n"
        "async def main(): await asyncio.to_thread(print, 'thread')\n"
        "asyncio.run(main())\n"
        "threading.current_thread() is threading.main_thread(), threading.active_count()"
    )

    assert outcome.stdout.startswith(b"signal\nthread\n(True, ")
    assert outcome.stderr == b""
