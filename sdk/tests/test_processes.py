"""Keeping processes: known for certain, restarted with pauses, ended within a deadline, gone with their parent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_sandbox.embedded import child as child_module
from agent_sandbox.embedded.child import Child, Service, last_words
from agent_sandbox.embedded.procs import (
    ProcessId,
    descendants,
    end,
    identify,
    marked,
    wait_gone,
)

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"

MARK = uuid.uuid4().hex
"""Of this run only: another one on the same machine has processes, too."""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours."""
    process = subprocess.Popen(["sleep", "60"], env={"MARK_FOR_TEST": MARK})
    yield process
    process.kill()
    process.wait(10)


def service(tmp_path: Path, *argv: str) -> Service:
    """Return a program to keep."""
    return Service(
        "probe", "node", argv=argv, env=dict(os.environ), log_file=tmp_path / "probe.log"
    )


def test_a_pid_that_was_given_again_is_not_the_process(sleeper: subprocess.Popen[bytes]) -> None:
    """The start time tells them apart: nothing is sent to a stranger."""
    here = identify(sleeper.pid)
    assert here is not None
    stranger = ProcessId(here.pid, here.start_ticks - 1)

    assert here.is_alive()
    assert not stranger.is_alive()
    assert stranger.send(signal.SIGKILL) is False
    assert sleeper.poll() is None


def test_processes_are_found_by_their_mark_and_by_their_parent(
    sleeper: subprocess.Popen[bytes],
) -> None:
    """Both ways lead to the same process."""
    here = identify(sleeper.pid)

    assert marked(f"MARK_FOR_TEST={MARK}") == [here]
    assert marked(f"MARK_FOR_TEST={MARK[:-1]}") == []
    assert here in descendants(os.getpid())


def test_a_process_that_ignores_sigterm_is_killed_after_its_grace() -> None:
    """And nothing is left."""
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        here = identify(stubborn.pid)
        assert here is not None

        left = end([here], grace_s=0.2, kill_s=5)

    assert left == []
    assert stubborn.returncode == -signal.SIGKILL


def test_children_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL gives the parent no chance: the kernel ends its children."""
    parent = textwrap.dedent(f"""
        import os, time
        from pathlib import Path
        from agent_sandbox.embedded.child import Service
        made = Service("x", "node", argv=("sleep", "60"), env=dict(os.environ), log_file=Path({str(tmp_path)!r}, "log"))
        print(made.start().pid, flush=True)
        time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        child = identify(int(running.stdout.readline()))
        assert child is not None
        assert child.is_alive()
        running.kill()

    assert wait_gone([child], 5) == []


async def test_what_dies_is_started_again_with_growing_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each death is counted and described; the pause doubles up to its bound."""
    monkeypatch.setattr(child_module, "PAUSE_FIRST_S", 0.01)
    pauses: list[float] = []
    enough = asyncio.Event()
    kept = Child(service(tmp_path, "sh", "-c", "exit 3"), lambda: None)
    wait = kept._stop.wait

    async def watch(pause_s: float | None = None) -> bool:
        pauses.append(pause_s or 0)
        if len(pauses) == 4:
            enough.set()
        return await wait(pause_s)

    monkeypatch.setattr(kept._stop, "wait", watch)
    keeping = asyncio.create_task(kept.keep())
    async with asyncio.timeout(20):
        await enough.wait()
    await kept.stop()
    await keeping

    assert pauses[:4] == [0.01, 0.02, 0.04, 0.08]
    assert kept.row.last_exit == "exit code 3"
    assert kept.row.restarts >= 4
    assert kept.row.state == "stopped"


async def test_a_program_that_cannot_be_started_is_said(tmp_path: Path) -> None:
    """A missing program is a death like any other, in words."""
    died = asyncio.Event()
    kept = Child(service(tmp_path, "/no/such/program"), died.set)
    keeping = asyncio.create_task(kept.keep())
    async with asyncio.timeout(10):
        await died.wait()
    await kept.stop()
    await keeping

    assert kept.row.last_exit.startswith("cannot start: ")
    assert kept.is_ready is False


async def test_ready_is_what_the_readiness_file_says(tmp_path: Path) -> None:
    """Running is not ready; a file of an earlier process does not count."""
    program = service(
        tmp_path, "sh", "-c", f"read x < {tmp_path}/go; touch {tmp_path}/ready; sleep 60"
    )
    program.ready_file = tmp_path / "ready"
    program.ready_file.touch()
    os.mkfifo(tmp_path / "go")
    running = asyncio.Event()
    kept = Child(program, running.set)
    keeping = asyncio.create_task(kept.keep())
    async with asyncio.timeout(10):
        await running.wait()
        before = kept.is_ready
        await asyncio.to_thread((tmp_path / "go").write_text, "\n")
        while not kept.is_ready:  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
    await kept.stop()
    await keeping

    assert before is False


def test_the_last_words_of_a_log_are_for_people() -> None:
    """Our own lines are JSON: the error in them is shown, not the object."""
    json_lines = '{"level":"info","event":"a.b"}\n{"level":"error","event":"service.failed","exception":"Traceback\\nValueError: bad"}'

    assert last_words(json_lines) == "service.failed: ValueError: bad"
    assert last_words("plain text\nlast line") == "last line"
    assert last_words("") == ""
