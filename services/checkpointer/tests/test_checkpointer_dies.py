"""A checkpointer that dies, or stands still, in the middle of a job."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from checkpointer.testing.live import MIB, Live, Owned, files, fill, packs_of, saved
from shared.testing.wait import until


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("op", ["save", pytest.param("restore", marks=pytest.mark.slow)])
async def test_a_job_ends_well_though_its_checkpointer_dies_in_the_middle(
    live: Live, owned: Owned, op: Any, number: signal.Signals
) -> None:
    """Asked again under the same id, its successor begins anew; a process that stood still goes on. Nothing is half."""
    workspace = live.workspace(owned.pod)
    fill(workspace)
    (workspace / "huge.bin").write_bytes(random.Random(2).randbytes(24 * MIB))
    before = files(workspace)
    first = await saved(owned) if op == "restore" else None
    if op == "restore":
        (workspace / "huge.bin").write_bytes(b"what the restore replaces")
    ask = owned.asking(op, first)
    asking = asyncio.create_task(live.ask(ask))
    if op == "save":
        await until(lambda: _has_packs(live, owned), within_s=10)
    else:
        await until(lambda: _is_replaced(workspace / "huge.bin"), within_s=10)
    assert live.process is not None

    live.process.send_signal(number)
    if number == signal.SIGKILL:
        live.process.wait(10)
        await live.start()
    else:
        await asyncio.sleep(1)
        live.process.send_signal(signal.SIGCONT)
    answer = await asking

    assert answer.state == "done", answer.error
    if op == "save":
        assert answer.snapshot is not None
        other = live.workspace("default-1-1")
        await owned.write(replace(owned.record, owner="default-1-1", epoch=2))
        again = await live.ask(owned.asking("restore", answer.snapshot, pod="default-1-1"))
        assert again.state == "done", again.error
        assert files(other) == before
    else:
        assert files(workspace) == before


def _is_replaced(file: Path) -> bool:
    """Return whether a restore has begun: the old file is gone, the new one perhaps there."""
    return not file.exists() or file.stat().st_size > MIB


async def _has_packs(live: Live, owned: Owned) -> bool:
    return bool(await packs_of(live.bus, owned.record.session))
