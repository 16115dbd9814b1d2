"""How long a save holds user code up, and what becomes of files that will not hold still."""

from __future__ import annotations

import asyncio
import random
import sys

import pytest

from checkpointer.adapters.engine.save import Watcher
from checkpointer.testing.fault_store import Fault
from shared.errors import Draining

WRITER = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY)
while True:
    os.pwrite(fd, os.urandom(8), 0)
    print(flush=True) if not os.lseek(fd, 0, os.SEEK_CUR) else None
    os.lseek(fd, 1, os.SEEK_SET)
"""
"""Writes to a file for as long as it lives; says so once."""


async def test_user_code_goes_on_once_all_is_read(rig) -> None:
    """`scanned` comes before the last pack is stored: the store's time is not the user's."""
    place = rig.new_place()
    (place / "file").write_bytes(random.Random(1).randbytes(100_000))
    seen: list[int] = []

    await rig.save(place, watcher=Watcher(scanned=lambda: seen.append(len(rig.files()))))

    assert seen == [0]


async def test_user_code_does_not_stand_still_for_all_that_is_read(rig) -> None:
    """After a bounded pause it goes on; a file that it changes then is caught as torn."""
    place = rig.new_place()
    for number in range(6):
        (place / f"file{number}").write_bytes(random.Random(number).randbytes(3 << 20))
    steps: list[object] = []

    await rig.save(
        place, pause_s=0.0,
        watcher=Watcher(lambda: steps.append("go on"), lambda done, *_: steps.append(done)),
    )  # fmt: skip

    assert steps.count("go on") == 1
    assert steps.index("go on") < len(steps) - 1


async def test_a_save_that_is_broken_off_ends_at_once(rig) -> None:
    """Whatever the store is doing: the job's thread lets go of the workspace."""
    place = rig.new_place()
    (place / "file").write_bytes(random.Random(1).randbytes(100_000))
    asked = asyncio.Event()

    def hang(*_: object) -> Fault:
        asked.set()
        return Fault(how="late")

    rig.faults.plan = hang
    saving = asyncio.create_task(rig.save(place))
    await asyncio.wait_for(asked.wait(), 20)

    rig.bridges[-1].stop()

    with pytest.raises(Draining):
        await asyncio.wait_for(saving, 20)


async def test_a_file_that_never_holds_still_keeps_its_former_content(rig) -> None:
    """It is named as torn; all others are saved."""
    place = rig.new_place()
    (place / "calm").write_text("calm")
    (place / "wild").write_bytes(b"a" * 30_000_000)
    first = await rig.save(place)
    (place / "calm").write_text("calmer")
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, place / "wild", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert writer.stdout is not None
        await writer.stdout.readline()
        second = await rig.save(place, first.ref)
    finally:
        writer.kill()
        await writer.wait()
    target = rig.new_place()
    await rig.restore(second.ref, target)

    assert second.torn == (b"wild",)
    assert (await rig.body(second.ref)).torn == (b"wild",)
    assert (target / "wild").read_bytes() == b"a" * 30_000_000
    assert (target / "calm").read_text() == "calmer"
