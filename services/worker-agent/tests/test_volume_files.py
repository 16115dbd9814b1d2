"""A session whose files this pod can't have: it waits for a keeper, and goes to another pod where it would wait for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from holding import FakeSandbox, FakeTruth, body, owned

from shared.errors import NotFound, ServiceError, Unavailable
from shared.record import Record
from worker_agent.core.lease import LeaseTimes
from worker_agent.loops.commit import Committer
from worker_agent.loops.keep_volume import VolumeFiles


class RefusingVolumes:
    """Keepers that say no."""

    def __init__(self, why: ServiceError) -> None:
        """Say `why`."""
        self.why = why
        self.asked = 0

    async def take(self, _record: Record, *, left_s: float) -> None:
        """Say it."""
        del left_s
        self.asked += 1
        raise self.why


async def begin(volumes: Any, left_s: float) -> tuple[Any, FakeTruth]:
    """Begin a task; return what came of it."""
    truth = FakeTruth()
    sandbox: Any = FakeSandbox()
    held = owned(truth, body(keep=True))
    committer = Committer(truth, give_up_s=5.0)
    files = VolumeFiles(volumes, sandbox, committer, LeaseTimes(fence_s=8.0), lambda: None)
    async with asyncio.timeout(20):
        return await files.begin(held, held.record.session, "rerun", left_s), truth


async def test_a_pod_without_a_folder_gives_its_session_to_another() -> None:
    """Its folder was cleared away: asked once, not until the task's deadline."""
    volumes = RefusingVolumes(NotFound("the volume: pod w has no folder"))
    outcome, truth = await begin(volumes, 3600.0)

    assert (outcome, volumes.asked) == ("given_back", 1)
    assert (truth.record.state, truth.record.owner) == ("waiting", None)


async def test_a_keeper_that_is_not_there_is_waited_for() -> None:
    """Another pod would have no other: the session stays until the task is late."""
    outcome, truth = await begin(RefusingVolumes(Unavailable("no keeper")), 0.5)

    assert (outcome, truth.record.state) == ("late", "running")
