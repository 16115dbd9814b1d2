"""Untrusted code in a pod attacks from inside: it finds nothing of the sidecar's, the cluster's, or another pod's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from harness.site import Site, open_site

from agent_sandbox import Client
from agent_sandbox.kubernetes.names import Namespaces
from shared.kubectl import Kubectl
from shared.testing import attacks

WAIT_S = 120.0
NOT_OURS = (
    "/run/enrol",
    "/run/enrol/token",
    "/run/enrol/enroller.creds",
    "/run/sidecar",
    "/run/sidecar/used",
    "/var/run/secrets/kubernetes.io/serviceaccount/token",
    "/opt/agent-sandbox/worker",
    "/proc/1/environ",
    "/proc/1/mem",
    "/etc/shadow",
    "/root/.",
)
LOOK_ROUND = (
    attacks.HEAD
    + """
for pid in [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]:
    try: words = read(f"/proc/{pid}/cmdline")
    except OSError: continue
    if b"agent-sandbox/worker" in words: got.append(f"sees the sidecar: {pid}")
    for name in ("environ", "mem", *(f"fd/{number}" for number in range(16))):
        attempt(f"/proc/{pid}/{name}", read, f"/proc/{pid}/{name}")
for name, value in os.environ.items():
    if name.startswith(("KUBERNETES_", "POD_", "NATS", "HOSTNAME")): got.append(f"{name}={value}")
tell()
"""
)
HARM_THE_RUNNER = (
    attacks.HEAD
    + """
import subprocess
attempt("ptrace", call, 101 if os.uname().machine == "x86_64" else 117, 16, 1, 0, 0)
attempt("write memory", lambda: os.close(os.open("/proc/1/mem", os.O_RDWR)))
attempt("take a descriptor", lambda: os.close(os.open("/proc/1/fd/3", os.O_RDWR)))
print(os.getpid(), flush=True)
tell()
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT):
    try: os.kill(1, number)
    except OSError: pass
"""
)


def reach(targets: dict[str, tuple[str, int]]) -> str:
    """Connect to addresses, send a packet to each, ask for a name, and use the sidecar's socket."""
    return (
        attacks.HEAD
        + f"""
def tcp(address):
    with socket.socket() as end:
        end.settimeout(3)
        end.connect(address)
        return "connected"
def udp(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        return end.sendto(b"x", address)
def unix(path):
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(path)
        return "connected"
for name, address in {targets!r}.items():
    attempt(f"tcp {{name}}", tcp, tuple(address))
    attempt(f"udp {{name}}", udp, tuple(address))
attempt("the pod's loopback", tcp, ("127.0.0.1", 8080))
attempt("name", socket.getaddrinfo, "kubernetes.default.svc.cluster.local", 443)
attempt("runner.sock", unix, "/run/agent/runner.sock")
attempt("replace runner.sock", os.unlink, "/run/agent/runner.sock")
attempt("raw", socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
attempt("packet", socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 3)
tell()
"""
    )


@pytest.fixture(params=["oci", "gvisor"])
def isolation(request: pytest.FixtureRequest) -> str:
    """Each class that has a pool here."""
    name: str = request.param
    return name


@pytest.fixture
async def site(system: Namespaces) -> AsyncIterator[Site]:
    """The system, reached."""
    async with open_site() as opened:
        yield opened


@pytest.fixture
async def client(site: Site) -> AsyncIterator[Client]:
    """A tenant's client."""
    async with site.client() as connected:
        yield connected


async def attacked(client: Client, isolation: str, code: str) -> dict[str, Any]:
    """Run an attack in a pod of a class; return what it got and what held."""
    result = await client.run(["python3", "-c", code], pool=f"test-{isolation}", wait_s=WAIT_S)
    assert result.raw.isolation == isolation, result.raw
    assert result.stdout, result.stderr
    told: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return told


async def test_no_secret_of_the_pod_is_in_sight(client: Client, isolation: str) -> None:
    """No token, no credential, no environment of the cluster's; the sidecar is not even seen."""
    files = await attacked(client, isolation, attacks.read_files(*NOT_OURS))
    around = await attacked(client, isolation, LOOK_ROUND)

    assert files["got"] == []
    assert len(files["held"]) == len(NOT_OURS)
    assert around["got"] == []


async def test_there_is_no_way_to_anything_on_the_network(
    client: Client, isolation: str, site: Site, kubectl: Kubectl
) -> None:
    """API server, NATS, other pods, nodes' ports, name servers, metadata; the sidecar next door reaches NATS all the time."""
    pods = await asyncio.to_thread(kubectl.list, "pods", namespace=site.spaces.system)
    workers = await asyncio.to_thread(kubectl.list, "pods", namespace=site.spaces.pods)
    service = await asyncio.to_thread(kubectl.get, "service", "kubernetes", namespace="default")
    targets = {
        "api": (service["spec"]["clusterIP"], 443),
        "metadata": ("169.254.169.254", 80),
    }
    for pod in pods:
        if pod["metadata"]["name"].startswith("nats-"):
            targets[pod["metadata"]["name"]] = (pod["status"]["podIP"], 4222)
            targets[f"node of {pod['metadata']['name']}"] = (pod["status"]["hostIP"], 10250)
    for pod in workers[:2]:
        if address := pod["status"].get("podIP"):
            targets[pod["metadata"]["name"]] = (address, 8080)

    told = await attacked(client, isolation, reach(targets))

    assert "nats-0" in targets
    assert told["got"] == []
    assert len(told["held"]) == 2 * len(targets) + 6


async def test_the_kernel_s_dangerous_calls_are_refused(client: Client, isolation: str) -> None:
    """Namespaces, mounts, modules, bpf, …: seccomp holds in both classes, whatever is below it."""
    told = await attacked(client, isolation, attacks.SYSTEM_CALLS)

    assert told["got"] == []


async def test_no_right_can_be_had(client: Client, isolation: str) -> None:
    """No other user, no other group, nothing written outside of what is the session's."""
    rights = await attacked(client, isolation, attacks.PRIVILEGES)
    if (
        isolation == "gvisor"
    ):  # a number in its own kernel's books: its processes stay the host's as they were
        rights["got"] = [got for got in rights["got"] if not got.startswith("nice")]
    folders = ("/", "/usr", "/etc", "/opt/agent-sandbox", "/run/agent", "/var/tmp")
    written = await attacked(client, isolation, attacks.write_outside(*folders))

    assert rights["got"] == []
    assert written["got"] == []


async def test_the_runner_outlives_what_its_tasks_do_to_it(client: Client, isolation: str) -> None:
    """No signal, no ptrace; everybody killed at once, and the next task of the session runs in the same pod."""
    session = await client.create_session(pool=f"test-{isolation}")
    first = await session.exec(["python3", "-c", HARM_THE_RUNNER], wait_s=WAIT_S)
    await session.exec(["python3", "-c", "import os; os.kill(-1, 9)"], wait_s=WAIT_S)
    after = await session.exec("echo fine", wait_s=WAIT_S)
    await session.close()

    assert json.loads(first.stdout.splitlines()[-1])["got"] == []
    assert after.stdout == "fine\n"
    assert after.raw.worker == first.raw.worker
