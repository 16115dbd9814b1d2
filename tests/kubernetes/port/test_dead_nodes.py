"""A node of a real cluster falls silent, as far as our own programs can tell: its checkpointer speaks no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from shared import messages, subjects
from shared.bus import Bus
from shared.identity import roles
from shared.kube.client import KubeApi
from shared.kube_names import node_token
from shared.testing.look import until
from shared.testing.plugin import Connect
from shared.views import PoolsAnswer
from shared.workspace import CheckpointerBeat

pytestmark = pytest.mark.kubernetes
WITHIN_S = 40.0
BEAT_S = 0.3
FENCE_S = 2.0
POOL = {"name": "default", "stock": 6, "isolation": "oci"}


class Speakers:
    """The checkpointers of all nodes, as far as their heartbeats go."""

    def __init__(self, buses: dict[str, Bus]) -> None:
        """Speak for these nodes."""
        self.buses = buses
        self.silent: set[str] = set()

    async def speak(self) -> None:
        """Until cancelled."""
        while True:
            for node, bus in self.buses.items():
                if node not in self.silent:
                    beat = CheckpointerBeat(node=node_token(node), started_ms=1)
                    subject = subjects.checkpointer_heartbeat(node_token(node))
                    await bus.publish(subject, messages.encode(beat))
            await asyncio.sleep(BEAT_S)


@pytest.fixture
async def speakers(api: KubeApi, connect: Connect) -> AsyncIterator[Speakers]:
    """One for each node."""
    listed = json.loads(await api.get("/api/v1/nodes"))["items"]
    nodes = [node["metadata"]["name"] for node in listed]
    buses = {}
    for node in nodes:
        token = node_token(node)
        buses[node] = await connect(roles.checkpointer(token), name=f"ckpt-{token}")
    made = Speakers(buses)
    task = asyncio.create_task(made.speak())
    yield made
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def node_of(pod: dict[str, Any]) -> str:
    """Return the node that Kubernetes found for a pod."""
    return str(pod["spec"].get("nodeName", ""))


async def test_pods_of_a_silent_node_are_replaced_elsewhere_at_once(
    begin: Any, pods: Any, speakers: Speakers, clean_bus: Bus
) -> None:
    """Their objects go by force, new pods keep off the node, the status names it; until it is heard again."""
    assert len(speakers.buses) > 1, "this takes a cluster of two nodes or more"
    for name in ("pm-1", "pm-2"):
        await begin(name, pools=[POOL], fence_s=FENCE_S)

    async def placed() -> list[dict[str, Any]]:
        found = list((await pods.all()).values())
        return found if len(found) == 6 and all(map(node_of, found)) else []

    before: list[dict[str, Any]] = await until(placed, within_s=WITHIN_S)
    dead = node_of(before[0])
    lost = {pod["metadata"]["name"] for pod in before if node_of(pod) == dead}
    speakers.silent.add(dead)

    async def elsewhere() -> list[dict[str, Any]]:
        found = await placed()
        return found if all(node_of(pod) != dead for pod in found) else []

    after: list[dict[str, Any]] = await until(elsewhere, within_s=WITHIN_S)
    assert lost.isdisjoint(pod["metadata"]["name"] for pod in after)
    kept = {pod["metadata"]["name"] for pod in before} - lost
    assert kept <= {pod["metadata"]["name"] for pod in after}
    new = next(pod for pod in after if pod["metadata"]["name"] not in kept)
    terms = new["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert terms["nodeSelectorTerms"][0]["matchFields"][0]["values"] == [dead]

    async def silent_nodes() -> set[str]:
        reply = await clean_bus.request(subjects.ask("t", "pools"), b"{}", timeout_s=5)
        nodes = messages.decode(reply.data, PoolsAnswer).nodes
        return {node.node for node in nodes if not node.alive}

    assert await silent_nodes() == {dead}
    speakers.silent.clear()

    async def none() -> bool:
        return not await silent_nodes()

    await until(none, within_s=WITHIN_S)


async def test_when_all_are_silent_nothing_is_given_up(
    begin: Any, pods: Any, speakers: Speakers
) -> None:
    """Then it is not the nodes."""
    await begin("pm-1", pools=[POOL], fence_s=FENCE_S)
    before = await until(lambda: pods.there(6), within_s=WITHIN_S)
    speakers.silent |= speakers.buses.keys()
    await asyncio.sleep(3 * FENCE_S)  # what is not to happen has no event
    assert await pods.there(6) == before
