"""A task as the runner takes it, and its end as the worker takes that."""

from __future__ import annotations

from shared import task
from worker_agent.adapters.runner_messages import Exit, Run, Size
from worker_agent.core.results import RunEnd
from worker_agent.ports import RunOrder


def run_of(order: RunOrder) -> Run:
    """Return what the runner is to do."""
    asked = order.task
    name = order.env["AGENT_SANDBOX_TASK"]
    if isinstance(asked, task.Python):
        return Run(task=name, kind="python", code=asked.code, env=order.env)
    return Run(
        task=name,
        kind="command",
        argv=asked.argv,
        shell=asked.shell,
        env=order.env if asked.tty is None else {"TERM": asked.tty.term, **order.env},
        cwd=None if asked.cwd == "." else asked.cwd,
        tty=None if asked.tty is None else Size(rows=asked.tty.rows, cols=asked.tty.cols),
    )


def end_of(end: Exit) -> RunEnd:
    """Return how a run ended."""
    return RunEnd(
        exit_code=end.exit_code,
        signal=end.signal,
        failure=None if end.error is None else end.error.info(),
        interpreter=end.interpreter,
        oom=end.oom,
    )
