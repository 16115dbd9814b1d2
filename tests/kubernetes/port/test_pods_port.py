"""A pool-manager and a real Kubernetes API: pods that are made, watched, replaced, adopted and cleared away.

No pod runs here: their image is nowhere.
"""

from __future__ import annotations

from typing import Any

import pytest

from shared import messages, subjects
from shared.bus import Bus
from shared.kube.client import KubeApi
from shared.testing.look import until
from shared.views import PoolsAnswer, PoolView

pytestmark = pytest.mark.kubernetes
START_S = 40.0
"""A busy machine's."""


async def status(bus: Bus, pool: str = "default") -> PoolView:
    """Return what a pool-manager says of a pool."""
    reply = await bus.request(subjects.ask("t", "pools"), b"{}", timeout_s=5)
    listed = messages.decode(reply.data, PoolsAnswer)
    return next(each for each in listed.pools if each.pool == pool)


async def reason(bus: Bus, *words: str) -> str:
    """Wait until the default pool's reason holds these words; return it."""

    async def said() -> str:
        text = (await status(bus)).reason
        return text if all(word in text for word in words) else ""

    return str(await until(said, within_s=START_S))


async def test_a_pod_that_somebody_deletes_gets_a_successor(
    begin: Any, pods: Any, api: KubeApi
) -> None:
    """Under another name, while the other pods stay."""
    await begin("pm-1")
    first = await until(lambda: pods.there(2), within_s=START_S)
    await api.delete(f"{pods.path}/{first[0]}", {"gracePeriodSeconds": 1})

    async def another() -> list[str]:
        running = await pods.there(2)
        return [] if first[0] in running else running

    assert first[1] in await until(another, within_s=START_S)


async def test_the_pods_of_a_manager_that_left_are_adopted(
    begin: Any, pods: Any, clean_bus: Bus
) -> None:
    """Its successor starts no other ones for the same slots, and ends none of them."""
    stop = await begin("pm-1")
    names = await until(lambda: pods.there(2), within_s=START_S)
    uids = await pods.uids()
    stop.set("over")
    await begin("pm-2", pools=[{"name": "default", "stock": 3, "isolation": "oci"}])
    await until(lambda: pods.there(3), within_s=START_S)
    after = await pods.uids()
    assert {name: after.get(name) for name in names} == uids


async def test_a_pod_that_no_slot_wants_is_ended(begin: Any, pods: Any, clean_bus: Bus) -> None:
    """Whatever made it: an order that was thought lost, or a pool that is not declared any more."""
    stop = await begin("pm-1", pools=[{"name": "other", "stock": 1, "isolation": "oci"}])
    former = await until(lambda: pods.there(1), within_s=START_S)
    stop.set("over")
    await begin("pm-2", pools=[{"name": "default", "stock": 1, "isolation": "oci"}])

    async def cleared() -> bool:
        there = await pods.uids()
        return former[0] not in there and len(there) == 1

    await until(cleared, within_s=START_S)


async def test_a_quota_is_the_pools_reason_until_it_is_raised(
    begin: Any, pods: Any, api: KubeApi, namespace: str, clean_bus: Bus
) -> None:
    """The status names it and the next try; few requests are made meanwhile; then the stock is filled."""
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    await api.create(quotas, quota)
    await until(lambda: pods.has_quota(quotas), within_s=START_S)
    await begin("pm-1", pools=[{"name": "default", "stock": 3, "isolation": "oci"}])
    await reason(clean_bus, "exceeded quota", "next try in")
    await api.delete(f"{quotas}/few")
    await until(lambda: pods.there(3), within_s=START_S)


async def test_an_image_that_cannot_be_had_is_the_pools_reason(begin: Any, clean_bus: Bus) -> None:
    """As the kubelet says it."""
    await begin("pm-1")
    text = await reason(clean_bus, "nowhere.invalid")
    assert "sidecar: " in text
    assert "next try in" in text


async def test_a_pod_that_does_not_start_in_time_is_replaced(begin: Any, pods: Any) -> None:
    """What is wrong with it may be gone with it: its node, its form, a secret that is there by now."""
    await begin("pm-1", pools=[{"name": "default", "stock": 1, "isolation": "oci"}], pending_s=3.0)
    first = await until(lambda: pods.there(1), within_s=START_S)

    async def another() -> bool:
        there = await pods.uids()
        return len(there) == 1 and first[0] not in there

    await until(another, within_s=START_S)


async def test_a_class_without_a_runtime_class_starts_nothing_and_says_so(
    begin: Any, pods: Any, clean_bus: Bus
) -> None:
    """Never a weaker one instead."""
    await begin("pm-1", pools=[{"name": "default", "stock": 1, "isolation": "kata"}])
    assert "class kata" in await reason(clean_bus, "there is no RuntimeClass kata")
    assert await pods.uids() == {}
