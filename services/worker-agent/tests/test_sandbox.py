"""The sandbox port over a real runner: what ends a run, whenever it comes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared import task
from shared.files import Transfer
from shared.identity import make_key
from shared.messages import Credential, PodSpec
from shared.pools import PodLimits
from worker_agent.adapters import kernel
from worker_agent.adapters.sandbox import RunnerSandbox
from worker_agent.core.results import RunEnd
from worker_agent.pod import Pod, read_pod
from worker_agent.ports import RunOrder

WAIT_S = 10.0
KILL_OTHERS = (
    "for stat in /proc/[0-9]*/stat; do read -r pid _ _ parent _ <$stat || continue; "
    "[ $parent != $PPID ] || [ $pid = $$ ] || kill -9 $pid; done 2>/dev/null"
)
"""All children of the runner but this shell; not every machine has `ps`."""
STARTED: list[float] = []
"""When user code began, by its orders."""
NO_OBJECTS: Any = None
"""These tasks name none."""


def make_pod(folder: Path, *watch: str) -> Pod:
    """Return a pod whose limits are watched as named."""
    spec = PodSpec(
        pod="p-0-1",
        pool="p",
        node="n",
        isolation="process",
        limits=PodLimits(),
        credential=Credential(jwt="a.b.c", seed=make_key("user").seed),
        servers=(),
        settings={},
    )
    sandbox = {"isolation": "process", "workspace": str(folder), "watch": watch}
    return read_pod({**msgspec.to_builtins(spec), "sandbox": sandbox}, str(folder), 0, None)


def make_order(
    line: str | task.Task, *, timeout_s: float = 60.0, files: dict[str, str] | None = None
) -> RunOrder:
    """Return the order to do a task, or to run a line of shell."""

    async def on_started(at_ms: float) -> None:
        STARTED.append(at_ms)

    async def on_output(_stream: str, _data: bytes) -> None: ...

    async def on_progress(_transfer: Transfer) -> None: ...

    inputs = tuple(task.InputFile(path=name, text=text) for name, text in (files or {}).items())
    return RunOrder(
        task=task.Command(shell=line, files=inputs) if isinstance(line, str) else line,
        env={"AGENT_SANDBOX_TASK": "t"},
        timeout_s=timeout_s,
        deadline_left_s=60.0,
        on_started=on_started,
        on_output=on_output,
        objects=NO_OBJECTS,
        on_progress=on_progress,
    )


async def run(sandbox: RunnerSandbox, order: RunOrder) -> RunEnd:
    """Run it within the test's own bound."""
    async with asyncio.timeout(WAIT_S):
        return await sandbox.run(order)


async def test_a_task_that_comes_while_frozen_waits_for_the_thaw(runner: Any) -> None:
    """Contact is back for whoever runs tasks a moment before the fence has thawed: that costs no workspace."""
    sandbox = RunnerSandbox(runner.channel, make_pod(runner.workspace))
    await sandbox.freeze()
    running = asyncio.create_task(run(sandbox, make_order("echo done > mark")))
    await asyncio.sleep(0.3)

    assert not (runner.workspace / "mark").exists()

    await sandbox.thaw()
    end = await running
    assert (end.exit_code, end.lost) == (0, False)
    assert (runner.workspace / "mark").exists()


async def test_a_time_limit_that_passes_while_frozen_is_not_forgotten(runner: Any) -> None:
    """What was stopped before it began never begins."""
    sandbox = RunnerSandbox(runner.channel, make_pod(runner.workspace))
    await sandbox.freeze()
    running = asyncio.create_task(run(sandbox, make_order("touch mark; sleep 60", timeout_s=0.1)))
    await asyncio.sleep(0.3)
    await sandbox.thaw()

    assert (await running).stopped == "timeout"
    assert not (runner.workspace / "mark").exists()


async def test_a_cancel_while_input_files_are_written_ends_the_task(
    runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no process yet that a signal could end, and there will be none."""
    sandbox = RunnerSandbox(runner.channel, make_pod(runner.workspace))
    write = runner.channel.files.write

    async def write_slowly(*args: Any, **named: Any) -> None:
        await sandbox.stop("cancel")
        await write(*args, **named)

    monkeypatch.setattr(runner.channel.files, "write", write_slowly)
    end = await run(sandbox, make_order("touch mark; sleep 60", files={"in": "x"}))

    assert end.stopped == "cancel"
    assert not (runner.workspace / "mark").exists()


async def test_a_run_that_nobody_watches_any_more_fails(
    runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its watch no time limit would hold: that is no state to go on in."""
    monkeypatch.setattr(kernel, "passed_limit", lambda *_: 1 / 0)
    sandbox = RunnerSandbox(runner.channel, make_pod(runner.workspace, "pids"))

    with pytest.raises(ZeroDivisionError):
        await run(sandbox, make_order("sleep 60"))


async def test_an_open_runs_nothing_in_the_interpreter_that_the_first_code_finds_fresh(
    runner: Any,
) -> None:
    """That it started says that the sandbox can run code; why it is fresh is for the user's own code to hear."""
    sandbox = RunnerSandbox(runner.channel, make_pod(runner.workspace))
    STARTED.clear()
    opened = await run(sandbox, make_order(task.Open(keep=True)))
    assert len(STARTED) == 1
    assert (opened.exit_code, opened.interpreter) == (0, None)

    first = await run(sandbox, make_order(task.Python(code="x = 1")))
    second = await run(sandbox, make_order(task.Python(code="x + 1")))
    assert first.interpreter is not None
    assert second.interpreter is not None
    assert first.interpreter.generation == second.interpreter.generation == 1
    assert first.interpreter.fresh is not None
    assert second.interpreter.fresh is None


async def test_code_that_finds_another_interpreter_than_the_open_hears_why(runner: Any) -> None:
    """What ended the first one is said, not that there was none."""
    sandbox = RunnerSandbox(runner.channel, make_pod(runner.workspace))
    await run(sandbox, make_order(task.Open(keep=True)))
    await run(sandbox, make_order(KILL_OTHERS))
    end = await run(sandbox, make_order(task.Python(code="1")))

    assert end.interpreter is not None
    assert end.interpreter.generation == 2
    assert "generation 1" in (end.interpreter.fresh or "")
