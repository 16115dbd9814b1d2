"""The play before the fork."""

from __future__ import annotations

import pytest

from worker_agent import rehearsal
from worker_agent.loops.run_task import TaskRunner
from worker_agent.rehearsal import play


def test_the_rehearsal_commits_a_task_in_every_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else it warms the code of failures."""
    commits: list[str] = []
    run = TaskRunner.run

    async def counted(self: TaskRunner, *args: object) -> None:
        await run(self, *args)  # type: ignore[arg-type]  # handed on as they came
        commits.append("committed")

    monkeypatch.setattr(TaskRunner, "run", counted)

    rehearsal.rehearse()

    assert commits == ["committed"] * play.PASSES
    assert "rehearsal.failed" not in capsys.readouterr().out
