"""A worker as a whole, over a bus and a sandbox that do as they are told."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared import subjects, transitions
from shared.errors import Unavailable
from shared.identity import lifetime, make_identity
from shared.messages import PodSpec
from shared.pools import PodLimits
from shared.record import Origin
from shared.service import Stop
from worker_agent.app import Worker
from worker_agent.pod import Pod, read_pod
from worker_agent.ports import Held

SESSION = "0192f0c4-0000-7000-8000-000000000001"
ORIGIN = Origin(session=SESSION, tenant="t", pool="p", lane="interactive", accepted_ms=0)


class FakeSubscription:
    """Hears nothing."""

    async def drain(self) -> None:
        """Leave."""


class FakeBus:
    """Takes heartbeats, and says nothing."""

    def __init__(self) -> None:
        """Have heard nothing."""
        self.beats: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def subscribe(self, *_: Any, **__: Any) -> FakeSubscription:
        """Take it."""
        return FakeSubscription()

    async def publish(self, subject: str, data: bytes = b"", **_: Any) -> None:
        """Keep what is a heartbeat."""
        if subject == subjects.heartbeat("p", "p-0-1"):
            self.beats.put_nowait(msgspec.json.decode(data))

    async def request(self, subject: str, data: bytes, *, timeout_s: float) -> None:
        """Have nobody who answers."""
        raise Unavailable("nobody listens")

    def watch_contact(self, _interval_s: float) -> asyncio.Semaphore:
        """Watch nothing, as any context manager does."""
        return asyncio.Semaphore()

    def contact_age_s(self) -> float:
        """Return that contact is new."""
        return 0.0


class FakeSandbox:
    """Lost when told."""

    def __init__(self) -> None:
        """Be there."""
        self.ended = asyncio.Event()
        self.lost = False

    async def wait_lost(self) -> None:
        """Wait for the test."""
        await self.ended.wait()


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    """A pod whose warm worker says so rarely."""
    spec = PodSpec(
        pod="p-0-1",
        pool="p",
        node="n",
        isolation="process",
        limits=PodLimits(),
        credential=make_identity().worker_signer.mint("p", "p-0-1", valid_s=3600),
        servers=(),
        settings={"WORKER_BEAT_WARM_S": "60"},
    )
    sandbox = {"isolation": "process", "workspace": str(tmp_path)}
    return read_pod({**msgspec.to_builtins(spec), "sandbox": sandbox}, str(tmp_path), 0, None)


def worker(pod: Pod, bus: Any, sandbox: Any) -> Worker:
    """Return a worker over both."""
    return Worker(pod, bus, sandbox)


async def test_a_warm_worker_that_lost_its_sandbox_leaves(pod: Pod) -> None:
    """It would claim a task only to fail it."""
    sandbox, stop = FakeSandbox(), Stop()
    sandbox.ended.set()
    async with asyncio.timeout(15):
        await worker(pod, FakeBus(), sandbox).serve(stop)

    assert stop.reason == "sandbox_lost"


def ending_soon(pod: Pod) -> Pod:
    """Return the pod with a credential that ends in two seconds."""
    credential = make_identity().worker_signer.mint("p", "p-0-1", valid_s=2.9)
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, credential=credential)
    )


async def test_a_warm_worker_that_nobody_renews_leaves_in_time(pod: Pod) -> None:
    """Without a credential it could take no work, and would hold its slot."""
    pod, stop = ending_soon(pod), Stop()
    life = lifetime(pod.spec.credential)
    assert life is not None
    async with asyncio.timeout(8):
        await worker(pod, FakeBus(), FakeSandbox()).serve(stop)

    assert stop.reason == "credential_ends"
    assert time.time() < life[1]


async def test_a_session_is_named_as_soon_as_it_is_owned(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with the next warm heartbeat: who lives and names no session is given up after 1.5 s."""
    bus = FakeBus()
    one = worker(pod, bus, FakeSandbox())
    claimed = asyncio.Event()
    record = transitions.create(ORIGIN, owner="p-0-1", node="n", now_ms=1)

    async def wait(*_: Any) -> Held:
        await claimed.wait()
        return Held(record=record, seq=1)

    async def hold(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(one._waiter, "wait", wait)
    monkeypatch.setattr(one._holder, "hold", hold)
    serving = asyncio.create_task(one.serve(Stop()))
    async with asyncio.timeout(15):
        assert "session" not in await bus.beats.get()
        claimed.set()
        assert (await bus.beats.get())["session"] == SESSION
    serving.cancel()
    await asyncio.wait({serving}, timeout=5)
