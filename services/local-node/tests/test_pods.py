"""Pods from their start to their end, in every class that this machine has."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time

import pytest
from drill import LIMITS, NODE, Drill, exists, is_there, parent, processes_with, until

from shared.errors import AlreadyDone, LimitExceeded, Rejected
from shared.messages import Credential, PodSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLASSES = ("process", "landlock", "namespace")


@pytest.fixture(params=CLASSES)
def isolation(request: pytest.FixtureRequest, drill: Drill) -> str:
    """Each class that the node offers."""
    missing = drill.available[request.param]
    if missing:
        pytest.skip(missing)
    return str(request.param)


def spec(name: str, isolation: str) -> PodSpec:
    """A pod's specification."""
    return PodSpec(
        pod=name, pool="drill", node=NODE, isolation=isolation, limits=LIMITS, credential=Credential(jwt="", seed="")
    )  # fmt: skip


async def test_a_pod_runs_commands_in_its_workspace(drill: Drill, isolation: str) -> None:
    """Both halves are there, joined by the channel, and the workspace is the one that the node sees."""
    pod = await drill.start(f"runs-{isolation}", isolation)

    said = await pod.shell("pwd; echo kept > file; echo $WORKSPACE")

    assert said["exit_code"] == 0, said
    inside = pod.sandbox["inner_workspace"]
    assert said["stdout"].split() == [inside, inside]
    assert (pod.folder / "workspace" / "file").read_text() == "kept\n"
    assert pod.sandbox["isolation"] == isolation
    await drill.end(pod)


async def test_a_deleted_pod_leaves_nothing(drill: Drill, isolation: str) -> None:
    """Processes that left their group, session and parent die with the pod; its directory and groups go."""
    pod = await drill.start(f"leaves-{isolation}", isolation)
    mark = f"31536{os.getpid()}"
    await pod.shell(
        f"(setsid sh -c 'sleep {mark} & sleep {mark}' >/dev/null 2>&1 &) ; sleep {mark} >/dev/null 2>&1 & exit 0"
    )
    assert await until(lambda: len(processes_with(mark)) >= 3)

    gone = await drill.end(pod)

    assert gone.cause == "deleted"
    assert processes_with(mark) == []
    assert not is_there(pod.sandbox_pid)
    assert not is_there(pod.sidecar_pid)
    assert not exists(pod.folder)
    if pod.facts["cgroup"]:
        assert not exists(pod.facts["cgroup"])


async def test_the_sidecars_exit_ends_the_pod(drill: Drill, isolation: str) -> None:
    """The session is over: the sandbox goes too, the exit code is told, the files stay until the pod is deleted."""
    pod = await drill.start(f"exits-{isolation}", isolation)
    await pod.order({"exit": 7})

    gone = await drill.wait_gone(pod.name)

    assert (gone.cause, gone.exit_code, gone.signal) == ("exited", 7, None)
    assert not is_there(pod.sandbox_pid)
    assert exists(pod.folder / "workspace")
    with pytest.raises(AlreadyDone):
        drill.pods.create(spec(pod.name, isolation), drill.available)
    drill.pods.delete(pod.name, 0)
    assert not exists(pod.folder)


async def test_a_killed_sidecar_ends_the_pod(drill: Drill, isolation: str) -> None:
    """Whatever ran in the sandbox is gone by the time the end is told."""
    pod = await drill.start(f"killed-{isolation}", isolation)
    mark = f"27182{os.getpid()}"
    await pod.shell(f"setsid sleep {mark} >/dev/null 2>&1 & exit 0")
    assert await until(lambda: bool(processes_with(mark)))
    os.kill(pod.sidecar_pid, signal.SIGKILL)

    gone = await drill.wait_gone(pod.name)

    assert (gone.cause, gone.signal) == ("killed", signal.SIGKILL)
    assert processes_with(mark) == []


async def test_a_lost_sandbox_ends_the_pod(drill: Drill, isolation: str) -> None:
    """A sidecar that stays without its sandbox is asked to leave."""
    pod = await drill.start(f"lost-{isolation}", isolation)
    os.kill(pod.sandbox_pid, signal.SIGKILL)

    gone = await drill.wait_gone(pod.name)

    assert gone.cause == "sandbox_lost"
    assert not is_there(pod.sidecar_pid)


@pytest.mark.parametrize("whose", ["sandbox", "sidecar"])
async def test_a_lost_zygote_ends_its_pods_by_no_fault_of_theirs(
    drill: Drill, isolation: str, whose: str
) -> None:
    """Both halves are killed, the sidecar before it could say a word; the next pod starts."""
    pod = await drill.start(f"orphan-{whose}-{isolation}", isolation)
    mark = f"14142{os.getpid()}"
    await pod.shell(f"setsid sleep {mark} >/dev/null 2>&1 & exit 0")
    assert await until(lambda: bool(processes_with(mark)))
    os.kill(parent(pod.sandbox_pid if whose == "sandbox" else pod.sidecar_pid), signal.SIGKILL)

    gone = await drill.wait_gone(pod.name)

    assert (gone.cause, gone.exit_code, gone.signal) == ("zygote_lost", None, signal.SIGKILL)
    assert processes_with(mark) == []
    assert not is_there(pod.sandbox_pid)
    assert not is_there(pod.sidecar_pid)
    heir = await drill.start(f"heir-{whose}-{isolation}", isolation)
    assert await heir.answers()
    await drill.end(heir)


async def test_creating_a_pod_again_does_nothing(drill: Drill, isolation: str) -> None:
    """A repeated request finds the pod that the first one made."""
    pod = await drill.start(f"again-{isolation}", isolation)

    drill.pods.create(spec(pod.name, isolation), drill.available)

    assert drill.pods.beat(0, drill.available).pods.count(pod.name) == 1
    assert await pod.answers()
    await drill.end(pod)


async def test_twenty_pods_start_at_once(drill: Drill, isolation: str) -> None:
    """Each is its own: channel, workspace, processes."""
    began = time.monotonic()
    names = [f"many-{number}-{isolation}" for number in range(20)]

    pods = await asyncio.gather(*(drill.start(name, isolation) for name in names))

    assert time.monotonic() - began < 15
    assert len({pod.sandbox_pid for pod in pods} | {pod.sidecar_pid for pod in pods}) == 40
    said = await asyncio.gather(*(pod.shell(f"echo {pod.name} > me; cat me") for pod in pods))
    assert [each["stdout"].strip() for each in said] == names
    await asyncio.gather(*(drill.end(pod) for pod in pods))


async def test_pods_deleted_while_they_start_leave_nothing(drill: Drill, isolation: str) -> None:
    """Those that wait never start, those on their way end; each is told of once."""
    names = [f"brief-{number}-{isolation}" for number in range(24)]
    for name in names:
        drill.pods.create(spec(name, isolation), drill.available)
    for name in names:
        drill.pods.delete(name, 0)

    endings = await asyncio.gather(*(drill.wait_gone(name) for name in names))

    assert {gone.cause for gone in endings} == {"deleted"}
    assert not any(exists(drill.folder / "pods" / name) for name in names)


async def test_a_sidecars_exception_ends_the_pod(drill: Drill, isolation: str) -> None:
    """Its exit code says that it failed."""
    pod = await drill.start(f"raises-{isolation}", isolation)
    await pod.order({"exit": "not a number"})

    assert (await drill.wait_gone(pod.name)).exit_code == 70


async def test_a_sandbox_that_cannot_be_confined_runs_nothing(drill: Drill, isolation: str) -> None:
    """The child says why and ends; here its pod has no directory."""
    request = {
        "pod": "nowhere", "isolation": isolation, "uid": None, "rlimits": {}, "niceness": 0, "memory_bounded": True,
    }  # fmt: skip
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = await drill.machine.sandboxes.start(request, (theirs.fileno(),))
        async with asyncio.timeout(10):
            ended = await child.exited

    assert ended.code == 71
    assert "FileNotFoundError" in ended.detail


async def test_a_sidecar_holds_its_channel_and_nothing_of_the_zygote(drill: Drill) -> None:
    """Descriptors 0, 1, 2 and the channel; the module was preloaded before the fork, in the zygote."""
    pod = await drill.start("descriptors", "process")

    fds = pod.facts["fds"]

    assert len(fds) <= 5, fds  # the server socket of the test sidecar is the fifth
    assert pod.facts["preloaded_in"] not in ([], [pod.sidecar_pid])
    await drill.end(pod)


async def test_a_class_that_is_not_there_is_refused(drill: Drill) -> None:
    """Never silently weaker: the error says why."""
    with pytest.raises(Rejected, match="isolation kata: not on this node"):
        drill.pods.create(spec("refused", "kata"), drill.available)


async def test_a_node_takes_no_more_pods_than_it_may(drill: Drill) -> None:
    """The limit is named."""
    for number in range(64 - len(drill.pods.beat(0, {}).pods)):
        drill.pods.create(spec(f"full-{number}", "process"), drill.available)
    with pytest.raises(LimitExceeded, match="pods_max"):
        drill.pods.create(spec("one-more", "process"), drill.available)
    for name in drill.pods.beat(0, {}).pods:
        drill.pods.delete(name, 0)
    for name in drill.pods.beat(0, {}).pods:
        await drill.wait_gone(name)
