"""A whole node, started as a program, asked over real NATS servers, with nothing but its own rights."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from drill import is_there, make_folder, processes_with, until

from local_node.adapters.zygote import tree
from local_node.adapters.zygote.kept import DEATHS_MAX
from shared import subjects
from shared.bus import Bus, Message
from shared.cluster import Cluster
from shared.errors import Unavailable
from shared.identity import roles
from shared.identity.files import write_credential
from shared.messages import (
    Answer,
    Credential,
    DeletePod,
    NodeBeat,
    PodGone,
    PodSpec,
    decode,
    encode,
)
from shared.pools import PodLimits
from shared.testing.names import unique

POOL = "drill"


class Manager:
    """What a pool-manager hears and asks."""

    def __init__(self, bus: Bus, node: str) -> None:
        self.bus = bus
        self.node = node
        self.beats: asyncio.Queue[NodeBeat] = asyncio.Queue()
        self.endings: asyncio.Queue[PodGone] = asyncio.Queue()

    async def listen(self) -> None:
        """Hear the node."""

        def on_beat(message: Message) -> None:
            self.beats.put_nowait(decode(message.data, NodeBeat))

        def on_gone(message: Message) -> None:
            self.endings.put_nowait(decode(message.data, PodGone))

        await self.bus.subscribe(subjects.node_heartbeat(self.node), on_beat)
        await self.bus.subscribe(subjects.gone(POOL), on_gone)

    async def create(self, pod: str, isolation: str = "process") -> Answer:
        """Ask for a pod."""
        spec = PodSpec(
            pod=pod, pool=POOL, node=self.node, isolation=isolation, limits=PodLimits(),
            credential=Credential(jwt="", seed=""),
        )  # fmt: skip
        return await self.ask(subjects.node_create(self.node), spec)

    async def delete(self, pod: str) -> Answer:
        """Ask for a pod's end."""
        return await self.ask(subjects.node_delete(self.node), DeletePod(pod=pod, grace_s=0))

    async def ask(self, subject: str, body: msgspec.Struct | bytes) -> Answer:
        """Request something of the node."""
        data = body if isinstance(body, bytes) else encode(body)
        return decode((await self.bus.request(subject, data, timeout_s=5)).data, Answer)

    async def beat(self, has: Any = lambda _beat: True) -> NodeBeat:
        """Wait for a heartbeat that fits."""
        async with asyncio.timeout(15):
            while True:
                beat = await self.beats.get()
                if has(beat):
                    return beat

    async def ending(self) -> PodGone:
        """Wait for the next ending."""
        async with asyncio.timeout(15):
            return await self.endings.get()


@pytest.fixture
def node_name() -> str:
    """A node of this test alone."""
    return unique("node")[:32]


@pytest.fixture
def node(nats_cluster: Cluster, node_name: str) -> Iterator[subprocess.Popen[bytes]]:
    """The node's process; it may be ended by the test."""
    folder = make_folder()
    credential = nats_cluster.identity.signer.mint(node_name, roles.local_node(node_name))
    write_credential(folder / "node.creds", credential)
    process = subprocess.Popen(
        [sys.executable, "-m", "local_node"],
        env={
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "LOCAL_NODE_NAME": node_name,
            "LOCAL_NODE_DIR": str(folder / "node"),
            "LOCAL_NODE_SERVERS": ",".join(nats_cluster.urls),
            "LOCAL_NODE_CREDENTIAL_FILE": str(folder / "node.creds"),
            "LOCAL_NODE_READY_FILE": str(folder / "ready"),
            "LOCAL_NODE_SIDECAR_MODULE": "drill_sidecar",
            "LOCAL_NODE_PODS_MAX": "4",
            "LOCAL_NODE_DRAIN_S": "10",
            "LOCAL_NODE_LOG_LEVEL": "warning",
        },
    )
    yield process
    process.kill()
    process.wait(10)
    shutil.rmtree(folder, ignore_errors=True)


@pytest_asyncio.fixture
async def manager(
    nats_cluster: Cluster, connect: Any, node: subprocess.Popen[bytes], node_name: str
) -> AsyncIterator[Manager]:
    """A pool-manager with a pool-manager's rights, and a node that beats."""
    bus = await connect(roles.pool_manager("pm"), name="pm", cluster=nats_cluster)
    hearing = Manager(bus, node_name)
    await hearing.listen()
    await hearing.beat()
    yield hearing


async def test_a_pod_is_created_told_of_and_deleted(manager: Manager) -> None:
    """The answer comes at once, heartbeats name the pod, its end is told."""
    assert (await manager.create("pod-1")) == Answer(ok=True)
    assert (await manager.create("pod-1")) == Answer(ok=True)
    beat = await manager.beat(lambda beat: beat.pods)
    assert beat.pods == ("pod-1",)
    assert beat.capacity == 4
    assert beat.isolation["process"] == ""
    assert beat.isolation["kata"]

    assert (await manager.delete("pod-1")) == Answer(ok=True)

    gone = await manager.ending()
    assert (gone.pod, gone.node, gone.cause) == ("pod-1", manager.node, "deleted")
    await manager.beat(lambda beat: not beat.pods)
    assert (await manager.delete("pod-1")) == Answer(ok=True)


async def test_what_cannot_be_is_refused_with_a_reason(manager: Manager) -> None:
    """A class that is not there, a bad name, a body that is none, one pod too many."""
    refused = [
        await manager.create("pod-1", isolation="kata"),
        await manager.create("../escape"),
        await manager.ask(subjects.node_create(manager.node), b"{"),
    ]
    for number in range(4):
        assert (await manager.create(f"pod-{number}")).ok
    refused.append(await manager.create("pod-5"))

    errors = [answer.error for answer in refused]
    assert [error.code if error else "" for error in errors] == [
        "rejected",
        "invalid_message",
        "invalid_message",
        "limit_exceeded",
    ]


async def test_a_node_drains_on_sigterm(manager: Manager, node: subprocess.Popen[bytes]) -> None:
    """Every pod ends and is told of; nothing is left; the exit code is 0."""
    for number in range(3):
        assert (await manager.create(f"pod-{number}")).ok
    await manager.beat(lambda beat: len(beat.pods) == 3)
    assert await until(lambda: len(tree.descendants(node.pid)) >= 9)  # zygotes, and two a pod
    descendants = tree.descendants(node.pid)

    node.send_signal(signal.SIGTERM)

    gone = {(await manager.ending()).pod for _ in range(3)}
    assert gone == {"pod-0", "pod-1", "pod-2"}
    assert await asyncio.to_thread(node.wait, 15) == 0
    assert not any(is_there(pid) for pid in descendants)
    with pytest.raises(Unavailable):
        await manager.create("pod-9")


async def test_a_node_goes_on_without_its_zygotes(
    manager: Manager, node: subprocess.Popen[bytes]
) -> None:
    """It tells that their pods are gone, and starts the next ones with new zygotes."""
    for number in range(2):
        assert (await manager.create(f"pod-{number}")).ok
    await manager.beat(lambda beat: len(beat.pods) == 2)
    assert await until(lambda: len(tree.descendants(node.pid)) >= 7)  # zygotes, and two a pod
    descendants = tree.descendants(node.pid)
    for pid in zygotes_of(node.pid):
        os.kill(pid, signal.SIGKILL)

    endings = [await manager.ending() for _ in range(2)]

    assert {(gone.pod, gone.cause) for gone in endings} == {
        ("pod-0", "zygote_lost"),
        ("pod-1", "zygote_lost"),
    }
    assert await until(lambda: not any(is_there(pid) for pid in descendants))
    assert (await manager.create("pod-9")).ok
    await manager.beat(lambda beat: beat.pods == ("pod-9",))
    assert (await manager.delete("pod-9")).ok
    assert (await manager.ending()).cause == "deleted"
    assert node.poll() is None


async def test_a_node_ends_where_a_zygote_cannot_live(
    manager: Manager, node: subprocess.Popen[bytes]
) -> None:
    """It fails, to be started again by whoever started it, which knows how to wait between."""
    for _ in range(DEATHS_MAX + 1):
        assert node.poll() is None
        before = zygotes_of(node.pid)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        assert await until(partial(has_others, node, before))

    assert await asyncio.to_thread(node.wait, 15) == 1


def zygotes_of(node: int) -> set[int]:
    """Return a node's zygotes; one that keeps trees is a child of its keeper, in the keeper's session."""
    forkers = set(processes_with("local_node.adapters.zygote.server"))
    found: set[int] = set()
    for first in forkers.intersection(tree.children(node)):
        below = {pid for pid in tree.children(first) if os.getsid(pid) == first}
        found |= below or {first}
    return found


def has_others(node: subprocess.Popen[bytes], before: set[int]) -> bool:
    """Whether a node has as many zygotes as before, all of them new; or it has ended."""
    now = zygotes_of(node.pid)
    return node.poll() is not None or (len(now) == len(before) and not now & before)
