"""A fault at each step of upload, commit, restore and rescue: the process killed, a question or its answer lost.

Whoever asked goes on asking, as workers and pool-managers do; what they get in the end is whole, and nobody lost a file.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from checkpointer.testing.live import Live, Owned
from shared.bus import Bus
from shared.cluster import Cluster
from shared.failpoints import Kind, Plan, PlanFolder
from shared.failpoints.saving import SAVING
from shared.failpoints.steps import BY_NAME
from shared.workspace import CheckpointAnswer, Op, SnapshotRef

OPS: dict[str, tuple[Op, ...]] = {
    "save": ("save", "rescue"),
    "restore": ("restore",),
    "rescue": ("rescue",),
}
"""Part of a step -> the jobs that come by there."""


class Case(NamedTuple):
    """One fault."""

    step: str
    kind: Kind
    op: Op


ALL = [
    Case(step.name, kind, OPS[step.act][number % len(OPS[step.act])])
    for step in SAVING
    if step.service == "checkpointer" and step.act in OPS
    for number, kind in enumerate(step.kinds)
]
"""Each kind at each step, the jobs that come by there in turn. Forks, deletion and garbage: `tests/faults`."""
WRITTEN_UNHEARD = Case("checkpointer.commit_snapshot.write", "crash_after", "save")
"""The one that is easiest to get wrong."""


class Stage:
    """A checkpointer that is started again whenever it dies, and its folder of faults."""

    def __init__(self, live: Live, plans: PlanFolder) -> None:
        """Use the fixture."""
        self.live, self.plans = live, plans
        self.deaths = 0
        self.cases = 0

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """While inside, start the process again when it dies, as its node does."""

        async def keep() -> None:
            while True:
                assert self.live.process is not None
                await asyncio.to_thread(self.live.process.wait)
                self.deaths += 1
                await self.live.start()

        keeping = asyncio.create_task(keep())
        try:
            yield
        finally:
            keeping.cancel()
            self.live.kill()
            with suppress(asyncio.CancelledError):
                await keeping  # if it did not come up again, that is what went wrong

    async def done(self, owned: Owned, op: Op, parent: SnapshotRef | None) -> CheckpointAnswer:
        """Ask until it is done: a job that failed for want of an answer is asked for anew."""
        pod = "" if op != "restore" else "default-9-1"
        while True:
            ask = owned.asking(op, parent, pod=pod)
            answer = await self.live.ask(ask, "rescue" if op == "rescue" else "")
            if answer.state == "done":
                return answer
            assert answer.error is not None
            if op == "rescue" and answer.error.code == "stale_epoch":  # it was written, unheard
                record = await owned.read()
                assert (record.state, record.boundary is not None) == ("queued", True)
                return replace(answer, state="done", snapshot=record.boundary)
            assert answer.error.code in ("unavailable", "outcome_unknown"), answer.error


@pytest.fixture
async def stage(
    admin_bus: Bus, provisioned_cluster: Cluster, tmp_path: Path
) -> AsyncIterator[Stage]:
    """A stage whose checkpointer runs."""
    plans = PlanFolder(tmp_path / "faults")
    plans.make()
    live = Live(provisioned_cluster, tmp_path, admin_bus, FAILPOINTS=str(tmp_path / "faults"))
    made = Stage(live, plans)
    await live.start()
    async with made.kept():
        yield made


async def play(stage: Stage, case: Case) -> None:
    """Save, change something, and do what is asked while the fault strikes; then restore, and compare."""
    stage.cases += 1
    live, name = stage.live, f"fault-{stage.cases}"
    owned = Owned(live, f"default-{stage.cases}-1")
    workspace = live.workspace(owned.pod)
    (workspace / "kept").write_bytes(random.Random(stage.cases).randbytes(200_000))
    await owned.write()
    first = (await stage.done(owned, "save", None)).snapshot
    (workspace / "new").write_bytes(random.Random(-stage.cases).randbytes(300_000))
    if case.op == "rescue":
        owned.mark()
        await owned.write(
            replace(owned.record, state="rescuing", owner=f"ckpt-{live.node}", epoch=2)
        )
    if case.op == "restore":
        await owned.write(replace(owned.record, owner="default-9-1", epoch=2))
        live.workspace("default-9-1")
    stage.plans.place(Plan(name=name, step=case.step, kind=case.kind))

    answer = await stage.done(owned, case.op, first)
    stage.plans.remove(name)

    assert stage.plans.fired(name) is not None, case
    assert answer.snapshot is not None
    wanted = {"kept"} if case.op == "restore" else {"kept", "new"}
    epoch = (await owned.read()).epoch + 1
    owned.seq = (await live.bus.read_last(*owned.where)).seq  # type: ignore[union-attr]  # it is there
    await owned.write(
        replace(owned.record, state="running", owner="default-8-1", node=live.node, epoch=epoch)
    )
    target = live.workspace("default-8-1")
    restored = await live.ask(owned.asking("restore", answer.snapshot, pod="default-8-1"))
    assert restored.state == "done", (case, restored.error)
    assert {path.name for path in target.iterdir()} == wanted, case
    assert all((target / one).read_bytes() == (workspace / one).read_bytes() for one in wanted)


async def test_a_death_after_the_write_costs_no_file(stage: Stage) -> None:
    """It is written, and nobody knows."""
    await play(stage, WRITTEN_UNHEARD)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_any_fault_at_any_step_costs_no_file(stage: Stage) -> None:
    """Each kind at each step, in one of the jobs that come by there."""
    for case in ALL:
        await play(stage, case)

    assert stage.deaths == sum(case.kind.startswith("crash") for case in ALL)
    assert all(case.kind in BY_NAME[case.step].kinds for case in ALL)
