"""A session whose files this pod can't have: it waits for a keeper, and goes to another pod where it would wait for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holding import FakeSandbox, FakeTruth, body, owned

from shared.errors import NotFound, ServiceError, Unavailable
from shared.record import Record
from shared.testing.wait import until
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


async def begin(
    volumes: Any, left_s: float, meanwhile: Callable[[VolumeFiles], None] = lambda _files: None
) -> tuple[Any, FakeTruth]:
    """Begin a task; return what came of it. `meanwhile` is called once a keeper has said no."""
    truth = FakeTruth()
    sandbox: Any = FakeSandbox()
    held = owned(truth, body(keep=True))
    committer = Committer(truth, give_up_s=5.0)
    files = VolumeFiles(volumes, sandbox, committer, LeaseTimes(fence_s=8.0), lambda: None)
    async with asyncio.timeout(20):
        beginning = asyncio.ensure_future(files.begin(held, held.record.session, "rerun", left_s))
        await until(lambda: files.reason[0] != "" or beginning.done())
        meanwhile(files)
        return await beginning, truth


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


async def test_a_worker_that_is_to_leave_gives_the_session_to_another() -> None:
    """Another one asks the keeper in its place."""
    refusing = RefusingVolumes(Unavailable("no keeper"))
    outcome, truth = await begin(refusing, 3600.0, VolumeFiles.leave)

    assert (outcome, truth.record.state) == ("given_back", "waiting")


async def test_a_task_that_is_cancelled_waits_for_no_keeper() -> None:
    """The session stays where it is."""
    refusing = RefusingVolumes(Unavailable("no keeper"))
    outcome, truth = await begin(refusing, 3600.0, VolumeFiles.cancel)

    assert (outcome, truth.record.state) == ("cancelled", "running")
