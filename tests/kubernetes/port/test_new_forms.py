"""A pool-manager that comes with another template replaces its predecessor's warm pods, and no pod that has a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from pool_manager.core.kube_forms import FORM
from shared import messages, subjects
from shared.bus import Bus
from shared.messages import WorkerBeat
from shared.testing.look import until

pytestmark = pytest.mark.kubernetes
WITHIN_S = 60.0
POOL = {"name": "default", "stock": 3, "isolation": "oci"}


@pytest.fixture
async def speaking(pods: Any, clean_bus: Bus) -> AsyncIterator[None]:
    """What workers would say: all pods that there are live."""

    async def speak() -> None:
        while True:
            for name in await pods.uids():
                beat = WorkerBeat(worker=name, pool="default", node="n", state="warm")
                subject = subjects.heartbeat("default", name)
                await clean_bus.publish(subject, messages.encode(beat))
            await asyncio.sleep(0.3)

    task = asyncio.create_task(speak())
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_warm_pods_of_a_former_form_are_replaced(
    begin: Any, pods: Any, speaking: None
) -> None:
    """One after the other, until all have the new one."""

    async def forms() -> list[str]:
        found = [
            pod["metadata"]["annotations"][FORM]
            for pod in (await pods.all()).values()
            if "deletionTimestamp" not in pod["metadata"]
        ]
        return found if len(found) == 3 and len(set(found)) == 1 else []

    stop = await begin("pm-1", pools=[POOL])
    before = await until(forms, within_s=WITHIN_S)
    stop.set("over")
    await begin("pm-2", pools=[POOL], template={"stop_grace_s": 3})

    async def others() -> bool:
        now = await forms()
        return bool(now) and now != before

    await until(others, within_s=WITHIN_S)
