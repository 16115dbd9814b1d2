"""A worker whose loop stands still: it asks whose session it is before user code goes on."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest
from holding import FakeTruth, body, owned

from shared.errors import StaleEpoch
from shared.messages import WorkerBeat
from shared.record import Record
from shared.testing.plugin import Connect
from shared.testing.wait import until
from worker_agent.adapters.contact import BusContact
from worker_agent.loops.beat import Beater, Fence
from worker_agent.settings import WorkerSettings

FENCE_S, MARGIN_S, BEAT_S = 1.5, 0.5, 0.1


class Acts(FakeTruth):
    """A truth and a sandbox that write down what is done with them."""

    def __init__(self) -> None:
        """Begin with nothing done."""
        super().__init__()
        self.acts: list[str] = []

    async def read(self, *names: str) -> tuple[Record, int]:
        """Read the record."""
        self.acts.append("read")
        return await super().read(*names)

    async def freeze(self) -> None:
        """Stop user code."""
        self.acts.append("freeze")

    async def thaw(self) -> None:
        """Let it go on."""
        self.acts.append("thaw")


@pytest.fixture
def settings() -> WorkerSettings:
    """A worker whose fence is short."""
    return WorkerSettings(fence_s=FENCE_S, fence_margin_s=MARGIN_S, beat_bound_s=BEAT_S)


async def stall(
    acts: Acts, connect: Connect, settings: WorkerSettings, stall_s: float, revoked: bool
) -> None:
    """Beat, stand still, and beat on until something was done, or three beats."""
    contact = BusContact(await connect(name="w"))
    held = owned(acts, body(keep=True))
    fence = Fence(contact, acts, acts, settings)  # type: ignore[arg-type]  # it plays both parts
    beats = 0

    def beat() -> WorkerBeat:
        nonlocal beats
        beats += 1
        return WorkerBeat(
            worker="w", pool="p", node="n", state="running", session=held.record.session
        )

    beater = Beater(contact, settings, beat)
    beating = asyncio.create_task(beater.run(lambda: fence.check(held)))
    await until(lambda: beats >= 4)
    assert acts.acts == []
    if revoked:
        acts.put(msgspec.structs.replace(acts.record, epoch=acts.record.epoch + 1))
    time.sleep(stall_s)  # noqa: ASYNC251 - the stall is what is tested
    # What a caller does at the same moment: fresh contact before the fence comes to look.
    assert await contact.probe()
    seen = beats
    await until(lambda: beats >= seen + 6 or beating.done())
    beating.cancel()
    result = (await asyncio.gather(beating, return_exceptions=True))[0]
    if isinstance(result, StaleEpoch):
        raise result


async def test_a_stall_beyond_the_fence_freezes_and_reads_before_user_code_goes_on(
    connect: Connect, settings: WorkerSettings
) -> None:
    """Though the servers answer at once: they say nothing of what happened meanwhile."""
    acts = Acts()
    await stall(acts, connect, settings, FENCE_S + 0.2, revoked=False)
    assert acts.acts == ["freeze", "read", "thaw"]


async def test_a_stall_in_which_the_session_was_taken_ends_the_worker(
    connect: Connect, settings: WorkerSettings
) -> None:
    """User code is frozen and stays so."""
    acts = Acts()
    with pytest.raises(StaleEpoch):
        await stall(acts, connect, settings, FENCE_S + 0.2, revoked=True)
    assert acts.acts == ["freeze", "read"]


async def test_a_short_stall_costs_nothing(connect: Connect, settings: WorkerSettings) -> None:
    """The managers do not give the session up so soon."""
    acts = Acts()
    await stall(acts, connect, settings, 0.3, revoked=False)
    assert acts.acts == []
