"""Messages whose deadline passes while nobody takes them, and an end that cannot be written."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from shared import subjects
from shared.failpoints import Plan, PlanFolder
from shared.task import Command, encode_task
from shared.testing.look import Look, until

OVERDUE = encode_task(Command(argv=("true",), deadline_s=0.5))


async def publish(look: Look) -> str:
    """Put a task message into one lane; return its id."""
    session = str(uuid.uuid4())
    subject = subjects.queue(0, look.tenant, "default", "interactive")
    await look.bus.publish_acked(subject, OVERDUE, message_id=session)
    return session


async def test_an_end_that_can_not_be_written_keeps_no_other_waiting(
    start: Any, look: Look, tmp_path: Path
) -> None:
    """The first message's home gives no answer, again and again; the second one, behind it, gets its end at once."""
    plans = PlanFolder(tmp_path / "faults")
    plans.make()
    stuck, other = await publish(look), await publish(look)
    step = "pool_manager.expire.end"
    for nth in range(1, 6):
        plans.place(Plan(name=f"{nth}", step=step, kind="request_lost", about=(stuck,), nth=nth))

    await start("pm-1", failpoints=str(tmp_path / "faults"))
    ended = await until(lambda: look.result(other))

    assert ended.status == "expired"
    assert plans.fired("1") is not None
    assert await look.result(stuck) is None
