"""A pod of two containers, without Kubernetes: real processes, real servers, somebody who answers for the pool-managers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from container_pod import NODE, TENANT, TOKEN, Managers, PodKit, publish

from shared import messages, subjects
from shared.bus import Bus, Message
from shared.cluster import Cluster
from shared.errors import ErrorInfo
from shared.messages import WorkerBeat
from shared.testing.look import Look, until
from shared.testing.names import unique

END_S = 15.0


@pytest.fixture
async def managers(admin_bus: Bus, provisioned_cluster: Cluster) -> Managers:
    """Whoever answers pods that ask."""
    answering = Managers(admin_bus, provisioned_cluster)
    await answering.serve()
    return answering


@pytest.fixture
def pod(tmp_path: Path, provisioned_cluster: Cluster) -> Iterator[PodKit]:
    """A pod whose containers are not started yet."""
    kit = PodKit(tmp_path, provisioned_cluster, unique("sidecar"))
    yield kit
    kit.end()


@pytest.fixture
def look(admin_bus: Bus) -> Look:
    """What the streams hold."""
    return Look(admin_bus, TENANT)


@pytest.fixture
async def beats(admin_bus: Bus, pod: PodKit) -> AsyncIterator[asyncio.Queue[WorkerBeat]]:
    """The pod's heartbeats."""
    heard: asyncio.Queue[WorkerBeat] = asyncio.Queue()

    def take(message: Message) -> None:
        heard.put_nowait(messages.decode(message.data, WorkerBeat))

    subscription = await admin_bus.subscribe(subjects.heartbeat("default", pod.name), take)
    yield heard
    await subscription.drain()


async def ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process's end; return its exit code."""
    return await asyncio.to_thread(process.wait, END_S)


def first_process(sandbox: subprocess.Popen[bytes]) -> int:
    """Return the pid of the sandbox's first process, as seen from outside."""
    return int(Path(f"/proc/{sandbox.pid}/task/{sandbox.pid}/children").read_text())


def session_id() -> str:
    """Return a new session's id."""
    return unique("pod-session")


async def test_a_pod_asks_for_its_credential_runs_a_session_and_ends(
    managers: Managers,
    pod: PodKit,
    look: Look,
    beats: asyncio.Queue[WorkerBeat],
    as_pid_1: list[str],
) -> None:
    """The sandbox's container ends first, the sidecar when it is told to: the other way round it would be restarted."""
    sidecar, sandbox = pod.start_sidecar(), pod.start_sandbox(as_pid_1)
    beat = await asyncio.wait_for(beats.get(), END_S)
    session = session_id()
    await publish(
        look, session, "echo $HOME; id -u >&2; python3 -c 'import socket; socket.socket()'"
    )
    result = await look.ended(session, session, within_s=END_S)

    assert not pod.socket.exists()
    assert (beat.state, beat.isolation, beat.network) == ("warm", "oci", "none")
    assert (result.worker, result.isolation, result.status) == (pod.name, "oci", "failed")
    [(asker, ask)] = managers.asked
    assert (asker, ask.token, ask.node, ask.pod_uid) == (
        pod.name,
        TOKEN,
        NODE,
        f"uid-of-{pod.name}",
    )
    assert await ended(sandbox) == 0
    assert sidecar.poll() is None
    sidecar.send_signal(signal.SIGTERM)
    assert await ended(sidecar) == 0


async def test_a_sidecar_that_was_restarted_serves_nobody(
    managers: Managers, pod: PodKit, look: Look, as_pid_1: list[str]
) -> None:
    """The sandbox ends with the first one; the second does not even ask for a credential."""
    first, sandbox = pod.start_sidecar(), pod.start_sandbox(as_pid_1)
    await until(lambda: managers.asked)
    first.kill()
    assert await ended(sandbox) == 0
    second = pod.start_sidecar()
    late = pod.start_sandbox(as_pid_1)
    assert await ended(late) == 0

    assert len(managers.asked) == 1
    assert "restarted" in pod.last_words.read_text()
    second.send_signal(signal.SIGTERM)
    assert await ended(second) == 0


async def test_a_pod_that_is_refused_says_why_and_ends(
    managers: Managers, pod: PodKit, as_pid_1: list[str]
) -> None:
    """What it says stands in its status, where Kubernetes shows it."""
    managers.refusal = ErrorInfo(code="forbidden", message="no slot has such a pod")
    pod.start_sidecar()
    sandbox = pod.start_sandbox(as_pid_1)

    assert await ended(sandbox) == 0
    assert pod.last_words.read_text() == "no slot has such a pod"
    assert len(managers.asked) == 1


async def test_a_pod_that_lacks_its_class_asks_for_nothing(
    managers: Managers, pod: PodKit, as_pid_1: list[str]
) -> None:
    """A RuntimeClass that leads to another runtime is found out by the pod itself."""
    pod.start_sidecar(POD_ISOLATION="gvisor")

    assert await ended(pod.start_sandbox(as_pid_1)) == 0
    assert "was to run on gVisor" in pod.last_words.read_text()
    assert managers.asked == []


async def test_a_pod_asks_again_under_the_same_key(
    managers: Managers, pod: PodKit, beats: asyncio.Queue[WorkerBeat], as_pid_1: list[str]
) -> None:
    """An answer that is lost costs a moment; a second key would be refused."""
    managers.silent = 1
    pod.start_sidecar()
    pod.start_sandbox(as_pid_1)
    await asyncio.wait_for(beats.get(), END_S)

    assert len(managers.asked) == 2
    assert len({ask.public_key for _, ask in managers.asked}) == 1


async def test_the_end_of_the_sandbox_s_container_is_announced_by_its_runner(
    managers: Managers, pod: PodKit, look: Look, as_pid_1: list[str]
) -> None:
    """Kubernetes tells the sandbox first: the session is handed over before anything ends."""
    managers.settings = {"WORKER_IDLE_RELEASE_S": "600"}
    pod.start_sidecar()
    sandbox = pod.start_sandbox(as_pid_1)
    session = session_id()
    await publish(look, session, "true", keep=True)
    await look.ended(session, session, within_s=END_S)
    held = await look.in_state(session, "running")
    os.kill(first_process(sandbox), signal.SIGTERM)
    given_back = await look.in_state(session, "idle")

    assert (held.owner, given_back.owner) == (pod.name, None)
    assert await ended(sandbox) == 0
