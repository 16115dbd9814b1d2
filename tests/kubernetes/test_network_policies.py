"""Who reaches whom, tried by connecting: what the policies do not name is refused."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from agent_sandbox.kubernetes.names import Namespaces
from shared.kubectl import Kubectl

TRY = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def reaches(place):
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
        return True
    except OSError:
        return False
places = json.loads(sys.argv[1])
with ThreadPoolExecutor(len(places)) as pool:
    print(json.dumps(dict(zip(places, pool.map(reaches, places)))))
"""
LISTENS = 8000
STARTED_S = 90


@contextmanager
def visitor(kubectl: Kubectl, namespace: str, labels: dict[str, str], image: str) -> Iterator[str]:
    """Start a pod that listens on LISTENS; yield its name."""
    name = f"visitor-{uuid.uuid4().hex[:8]}"
    confined = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": "visitor",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "http.server", str(LISTENS), "--directory", "/tmp"],
        "securityContext": confined,
    }
    user = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": user,
            "containers": [container],
        },
    }
    kubectl.run("apply", "-f", "-", stdin=json.dumps(pod))
    try:
        ready = ("wait", "--for=condition=ready", f"pod/{name}", "-n", namespace)
        kubectl.run(*ready, f"--timeout={STARTED_S}s", timeout_s=STARTED_S + 10)
        yield name
    finally:
        kubectl.run("delete", "pod", name, "-n", namespace, "--ignore-not-found", "--wait=false")


def reached(kubectl: Kubectl, namespace: str, pod: str, places: Sequence[str]) -> set[str]:
    """Return which of the places, `host:port`, take a connection from a pod."""
    words = ("exec", pod, "-n", namespace, "--", "python3", "-c", TRY, json.dumps(list(places)))
    found = json.loads(kubectl.run(*words, timeout_s=60))
    return {place for place, open_ in found.items() if open_}


def address(kubectl: Kubectl, namespace: str, labels: str) -> str:
    """Return the address of a pod that runs."""
    pods = kubectl.list("pods", namespace=namespace, labels=labels)
    return next(pod["status"]["podIP"] for pod in pods if pod["status"]["phase"] == "Running")


@pytest.fixture
def image(kubectl: Kubectl, system: Namespaces) -> str:
    """An image that is on the nodes and has Python."""
    pods = kubectl.list("pods", namespace=system.pods, labels="agent-sandbox.dev/pool=test-oci")
    containers = pods[0]["spec"]["containers"]
    return str(next(one["image"] for one in containers if one["name"] == "sandbox"))


@pytest.fixture
def places(kubectl: Kubectl, system: Namespaces) -> dict[str, str]:
    """Every kind of place that there is, by what it is."""
    nats = address(kubectl, system.system, "app.kubernetes.io/name=nats")
    manager = address(kubectl, system.system, "app.kubernetes.io/name=pool-manager")
    checkpointer = address(kubectl, system.nodes, "app.kubernetes.io/name=checkpointer")
    api = kubectl.get("service", "kubernetes", namespace="default")["spec"]["clusterIP"]
    return {
        "servers": f"{nats}:4222",
        "routes": f"{nats}:6222",
        "monitor": f"{nats}:8222",
        "probes of an edge": f"{nats}:9090",
        "probes of a manager": f"{manager}:9090",
        "probes of a checkpointer": f"{checkpointer}:9090",
        "API server": f"{api}:443",
        "the world": "198.51.100.1:443",
    }


def test_a_worker_reaches_the_servers_and_nobody_else(
    kubectl: Kubectl, system: Namespaces, image: str, places: dict[str, str]
) -> None:
    """As does whatever runs in its sandbox: the policy is the pod's."""
    labels = {"app.kubernetes.io/part-of": "agent-sandbox"}
    with (
        visitor(kubectl, system.pods, labels, image) as pod,
        visitor(kubectl, system.pods, labels, image) as other,
    ):
        there = kubectl.get("pod", other, namespace=system.pods)["status"]["podIP"]
        of_itself = f"127.0.0.1:{LISTENS}"
        assert reached(kubectl, system.pods, other, (of_itself,)) == {of_itself}
        wanted = (*places.values(), f"{there}:{LISTENS}")
        assert reached(kubectl, system.pods, pod, wanted) == {places["servers"]}


def test_a_stranger_among_the_services_reaches_nobody(
    kubectl: Kubectl, system: Namespaces, image: str, places: dict[str, str]
) -> None:
    """Being in the namespace is no right: policies name who may."""
    with visitor(kubectl, system.system, {"app": "stranger"}, image) as pod:
        assert reached(kubectl, system.system, pod, tuple(places.values())) == set()


def test_who_comes_from_elsewhere_reaches_no_server_and_no_service(
    kubectl: Kubectl, system: Namespaces, image: str, places: dict[str, str]
) -> None:
    """Its own namespace lets it out; ours let it in nowhere but at edges and gateways."""
    ours = {place for what, place in places.items() if what not in ("API server", "the world")}
    with visitor(kubectl, "default", {"app": "stranger"}, image) as pod:
        assert reached(kubectl, "default", pod, tuple(ours)) == set()
        edge = address(kubectl, system.system, "app.kubernetes.io/name=nats")
        assert reached(kubectl, "default", pod, (f"{edge}:4223",)) == {f"{edge}:4223"}
