"""A pool-manager sees to its pools' volumes: what misses is made, once, by one of them, and said by all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from pool_manager.core import peers
from pool_manager.core.dead_nodes import IS_OFF, Act
from pool_manager.core.kube_cluster import Cluster
from pool_manager.core.lost import Bounds
from pool_manager.core.peers import SETTLE_S, ManagerBeat
from pool_manager.core.pod_template import PodTemplate
from pool_manager.core.volume_form import claim_manifest, keepers_manifest
from pool_manager.core.volume_state import ClaimView, DeploymentView
from pool_manager.core.world import World
from pool_manager.loops import keep_volumes
from pool_manager.loops.keep_volumes import VolumeKeeping
from shared.errors import Forbidden, Unavailable
from shared.kube.views import NodeView
from shared.pools import PoolSpec, Volume

TEMPLATE = PodTemplate(
    namespace="pods",
    worker_image="w",
    sandbox_image="s",
    services_image="keepers:1",
    nats_servers=("nats://n:4222",),
)
POOLS = [
    PoolSpec(name=name, isolation="oci", workspace="pvc", volume=Volume(size_gib=1))
    for name in ("large", "other")
]


class MemoryVolumes:
    """An API server's claims and Deployments; keepers are ready as soon as they are made, claims bound."""

    def __init__(self) -> None:
        """Hold none."""
        self.held: dict[str, ClaimView] = {}
        self.kept: dict[str, DeploymentView] = {}
        self.made: list[str] = []
        self.refused: set[str] = set()
        self.is_up = True

    async def claims(self) -> dict[str, ClaimView]:
        """Return all."""
        if not self.is_up:
            raise Unavailable("the API server: no answer")
        return dict(self.held)

    async def keepers(self) -> dict[str, DeploymentView]:
        """Return all."""
        return dict(self.kept)

    async def keeper_nodes(self) -> dict[str, set[str]]:
        """Return where keepers are."""
        return {name: {"n-1"} for name in self.kept}

    async def claim(self, pool: PoolSpec) -> None:
        """Make a claim."""
        if pool.name in self.refused:
            raise Forbidden("exceeded quota: workers")
        self.made.append(f"claim {pool.name}")
        made = claim_manifest(TEMPLATE, pool) | {"status": {"phase": "Bound"}}
        self.held[pool.name] = msgspec.convert(made, ClaimView)

    async def keep(self, pool: PoolSpec, before: DeploymentView | None) -> None:
        """Make keepers."""
        self.made.append(f"keepers {pool.name}")
        made = keepers_manifest(TEMPLATE, pool) | {"status": {"availableReplicas": 2}}
        self.kept[pool.name] = msgspec.convert(made, DeploymentView)

    async def dismiss(self, keepers: DeploymentView) -> None:
        """End keepers."""
        name = keepers.metadata.name.removeprefix("keeper-")
        self.made.append(f"no keepers {name}")
        del self.kept[name]


class MemoryNodes:
    """An API server's nodes, as somebody marks them."""

    def __init__(self) -> None:
        """All may be marked."""
        self.marked: list[tuple[str, Act]] = []
        self.allowed = True

    async def mark(self, node: NodeView, act: Act) -> None:
        """Note it."""
        if not self.allowed:
            raise Forbidden("nodes: not allowed")
        self.marked.append((node.metadata.name, act))


class Seeing:
    """One pool-manager's eyes on volumes."""

    def __init__(self, name: str = "pm", pools: Sequence[PoolSpec] = POOLS) -> None:
        """Begin long ago."""
        self.volumes, self.nodes = MemoryVolumes(), MemoryNodes()
        self.world = World(name, pools, Bounds(), now=-2 * SETTLE_S)
        self.cluster = Cluster(TEMPLATE)
        self.cluster.hears = True
        self.keeping = VolumeKeeping(self.world, self.cluster, self.volumes, self.nodes)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Look until the block ends."""
        running = asyncio.create_task(self.keeping.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait({running})


async def until(is_so: Callable[[], Any]) -> None:
    """Wait for something that no event tells."""
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look all the time."""
    monkeypatch.setattr(keep_volumes, "next_look_s", lambda *_: 0.001)


async def test_a_pool_gets_its_claim_first_and_then_its_keepers() -> None:
    """Each once; when all is there nothing is said."""
    seeing = Seeing()
    async with seeing.at_work():
        await until(lambda: len(seeing.volumes.kept) == 2 and not seeing.cluster.volumes)
        await asyncio.sleep(0.02)
    made = seeing.volumes.made
    assert sorted(made) == ["claim large", "claim other", "keepers large", "keepers other"]
    assert made.index("claim large") < made.index("keepers large")


async def test_a_pool_whose_claim_is_refused_says_so_and_the_others_go_on() -> None:
    """It is asked for again, and is quiet once it is there."""
    seeing = Seeing()
    seeing.volumes.refused = {"large"}
    async with seeing.at_work():
        await until(lambda: "other" in seeing.volumes.kept)
        await until(lambda: "exceeded quota" in seeing.cluster.volumes.get("large", ""))
        assert "large" not in seeing.volumes.held
        seeing.volumes.refused = set()
        await until(lambda: "large" in seeing.volumes.kept and not seeing.cluster.volumes)


async def test_pods_are_asked_for_as_soon_as_their_volume_is_there() -> None:
    """Not when the last of ever longer waits is over: another pool's goes on."""
    seeing = Seeing()
    seeing.volumes.refused = {"large"}
    for name in ("large", "other"):
        seeing.world.pools[name].hold("refused", time.monotonic() + 3600)
    asked: list[bool] = []
    seeing.keeping.on_due = lambda: asked.append(True)
    async with seeing.at_work():
        await until(lambda: "exceeded quota" in seeing.cluster.volumes.get("large", ""))
        await until(lambda: "other" not in seeing.cluster.volumes)
        await until(lambda: asked)
        held = {name: slots.held_until for name, slots in seeing.world.pools.items()}
        assert held["other"] < time.monotonic() < held["large"]

        seeing.volumes.refused = set()
        await until(lambda: seeing.world.pools["large"].held_until < time.monotonic())


async def test_an_api_server_that_is_away_changes_nothing_that_was_said() -> None:
    """Whoever waits for a volume is told why by what was seen last; then all goes on."""
    seeing = Seeing()
    seeing.volumes.refused = {"large"}
    async with seeing.at_work():
        await until(lambda: "exceeded quota" in seeing.cluster.volumes.get("large", ""))
        seeing.volumes.is_up = False
        await asyncio.sleep(0.02)
        assert "exceeded quota" in seeing.cluster.volumes["large"]
        seeing.volumes.is_up, seeing.volumes.refused = True, set()
        await until(lambda: not seeing.cluster.volumes)


async def test_one_of_two_pool_managers_acts_and_both_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which one is agreed by arithmetic."""
    monkeypatch.setattr(peers, "DEAD_AFTER_S", 3600.0)
    both = [Seeing("pm-a"), Seeing("pm-b")]
    volumes, others = both[0].volumes, both[1].volumes
    others.held, others.kept = volumes.held, volumes.kept
    for one, other in (both, reversed(both)):
        beat = ManagerBeat(manager=other.world.peers.me)
        one.world.peers.heard(beat, time.monotonic())
    async with both[0].at_work(), both[1].at_work():
        await until(lambda: len(volumes.kept) == 2)
        await until(lambda: not any(one.cluster.volumes for one in both))
    assert sorted([len(volumes.made), len(others.made)]) == [0, 4]


async def test_keepers_of_a_pool_that_is_declared_nowhere_end_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not at once: this pool-manager may be about to be replaced by one that knows the pool. Its claim stays."""
    seeing = Seeing()
    await seeing.volumes.claim(former := msgspec.structs.replace(POOLS[0], name="former"))
    await seeing.volumes.keep(former, None)
    async with seeing.at_work():
        await until(lambda: "large" in seeing.volumes.kept)
        await asyncio.sleep(0.02)
        assert "former" in seeing.volumes.kept
        monkeypatch.setattr(keep_volumes, "DISMISS_S", 0.0)
        await until(lambda: "former" not in seeing.volumes.kept)
    assert "former" in seeing.volumes.held


ON_ONE = PoolSpec(
    name="single", isolation="oci", workspace="pvc", volume=Volume(access_mode="ReadWriteOnce")
)


def node(ready: str = "Unknown", word: str = "", name: str = "n-1") -> NodeView:
    """Return the node that has the volume, and of which an operator says this."""
    status = {"conditions": [{"type": "Ready", "status": ready}], "nodeInfo": {"bootID": "boot-7"}}
    metadata = {"name": name, "annotations": {IS_OFF: word} if word else {}}
    return msgspec.convert({"metadata": metadata, "status": status}, NodeView)


async def test_a_node_is_taken_out_of_service_by_proof_alone() -> None:
    """Until then the pool says which node has its volume, and the very command that would free it."""
    seeing = Seeing(pools=[ON_ONE])
    seeing.cluster.nodes["n-1"] = node("True")
    async with seeing.at_work():
        await until(lambda: "single" in seeing.volumes.kept and not seeing.cluster.volumes)
        seeing.cluster.nodes["n-1"] = node()
        await until(lambda: "is-off=boot-7" in seeing.cluster.volumes.get("single", ""))
        await asyncio.sleep(0.02)
        assert seeing.nodes.marked == []

        seeing.cluster.nodes["n-1"] = node(word="boot-7")
        await until(lambda: ("n-1", "out") in seeing.nodes.marked)


async def test_who_was_deaf_a_moment_ago_takes_no_node_out_of_service() -> None:
    """Whatever anybody says of a node: what spoke on it meanwhile was missed."""
    seeing = Seeing(pools=[ON_ONE])
    seeing.cluster.hears = False
    seeing.cluster.nodes["n-1"] = node(word="boot-7")
    async with seeing.at_work():
        await until(lambda: "is off" in seeing.cluster.volumes.get("single", ""))
        await asyncio.sleep(0.02)
        assert seeing.nodes.marked == []
        seeing.cluster.hears = True
        await until(lambda: ("n-1", "out") in seeing.nodes.marked)


async def test_a_node_that_is_back_is_taken_into_service_and_one_that_stays_off_holds_nobody() -> (
    None
):
    """Once the volume has left it: what it waits for concerns no pool any more."""
    seeing = Seeing(pools=[ON_ONE])
    seeing.cluster.nodes = {"n-1": node("True"), "n-2": node(word="boot-7", name="n-2")}
    async with seeing.at_work():
        await until(lambda: "single" in seeing.volumes.kept and not seeing.cluster.volumes)
        await asyncio.sleep(0.02)
        assert (seeing.nodes.marked, seeing.cluster.volumes) == ([], {})

        seeing.cluster.nodes["n-2"] = node("True", word="boot-6", name="n-2")
        await until(lambda: ("n-2", "back") in seeing.nodes.marked)
        seeing.cluster.nodes["n-1"] = node("True", word="boot-6")
        await until(lambda: ("n-1", "back") in seeing.nodes.marked)
        await asyncio.sleep(0.02)
    assert seeing.cluster.volumes == {}


async def test_a_node_is_taken_back_where_no_pool_wants_it_any_more() -> None:
    """The pool for which it was taken out of service is declared no more; else it would stay without pods for ever."""
    seeing = Seeing(pools=[])
    seeing.cluster.nodes = {"n-1": node("True", word="boot-6")}
    async with seeing.at_work():
        await until(lambda: ("n-1", "back") in seeing.nodes.marked)


async def test_who_may_not_take_nodes_out_of_service_says_what_to_do() -> None:
    """Nothing hangs in silence."""
    seeing = Seeing(pools=[ON_ONE])
    seeing.cluster.nodes["n-1"] = node("True")
    seeing.nodes.allowed = False
    async with seeing.at_work():
        await until(lambda: "single" in seeing.volumes.kept and not seeing.cluster.volumes)
        seeing.cluster.nodes["n-1"] = node(word="boot-7")
        await until(lambda: "kubectl taint node n-1" in seeing.cluster.volumes.get("single", ""))
    assert seeing.nodes.marked == []
