"""The system on a real cluster: that of `$KUBECONFIG`, whatever it is.

What a test may find in the environment, beside the kubeconfig:

    AGENT_SANDBOX_FAULTS      command that does faults to nodes (shared.testing.node_faults)
    AGENT_SANDBOX_AUDIT_LOG   the API server's audit log
    AGENT_SANDBOX_SHARED_CLASS  a StorageClass whose volumes many nodes mount at once; else it is the default one
    AGENT_SANDBOX_DISK_CLASS  a StorageClass whose volumes one node has at a time

The images are on the nodes: `./dev images --load 'COMMAND'`. A system that is there is used and left; else it is made,
and taken away again at the end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_sandbox.kubernetes.names import NAMESPACE, Namespaces, namespaces
from shared.kubectl import Kubectl, wait_ready
from shared.pools import PoolSpec, Volume
from shared.testing.node_faults import FAULTS_VARIABLE, NodeFaults

ROOT = Path(__file__).parents[2]
# Behind all others, as for tests/benchmarks: the harness is no installed package.
sys.path.append(str(ROOT / "benchmarks"))

from harness.api import audit_log as find_audit_log  # noqa: E402 - found by the line above
from harness.site import declare, opened_policies, others, withdraw  # noqa: E402 - likewise

OVERLAY = ROOT / "deploy" / "overlays" / "dev"
READY_S = 240.0
SHARED_CLASS = "AGENT_SANDBOX_SHARED_CLASS"
DISK_CLASS = "AGENT_SANDBOX_DISK_CLASS"
POOLS = (
    PoolSpec(
        name="test-oci",
        stock=4,
        pods_max=40,
        isolation="oci",
        checkpoint_every_s=1,
        idle_release_s=3600,
    ),
    PoolSpec(name="test-still", stock=6, pods_max=6, isolation="oci"),
    PoolSpec(name="test-gvisor", stock=1, pods_max=8, isolation="gvisor"),
    *(
        PoolSpec(
            name=f"test-volume{more}",
            stock=stock,
            pods_max=12,
            isolation=isolation,
            workspace="pvc",
            volume=Volume(size_gib=1, storage_class=os.environ.get(SHARED_CLASS, "")),
            idle_release_s=3600,
        )
        for more, stock, isolation in (("", 2, "oci"), ("-gvisor", 1, "gvisor"))
    ),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.kubernetes)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300, func_only=True))


@pytest.fixture(scope="session")
def kubectl() -> Kubectl:
    """The cluster."""
    if not os.environ.get("KUBECONFIG"):
        pytest.skip("no $KUBECONFIG names a cluster")
    return Kubectl()


@pytest.fixture(scope="session")
def spaces() -> Namespaces:
    """Where the system is."""
    return namespaces()


@pytest.fixture(scope="session")
def system(kubectl: Kubectl, spaces: Namespaces) -> Iterator[Namespaces]:
    """A system that is ready, with the tests' pools."""
    there = kubectl.find("namespace", NAMESPACE)
    if there is not None and "deletionTimestamp" in there["metadata"]:  # of a run just before
        words = ("delete", "namespace", *spaces, "--ignore-not-found")  # waits until they are gone
        kubectl.run(*words, f"--timeout={READY_S:g}s", timeout_s=READY_S + 10)
        there = None
    is_new = there is None
    if is_new:
        kubectl.run("apply", "-k", str(OVERLAY), timeout_s=60)
    services = (spaces.system, spaces.nodes)
    wait_ready(kubectl, services, within_s=READY_S)
    names = {pool.name for pool in POOLS}
    declare(kubectl, spaces, (*others(kubectl, spaces, names), *POOLS))
    with opened_policies(kubectl, spaces):
        yield spaces
    if is_new:
        kubectl.run("delete", "-k", str(OVERLAY), "--wait=false", timeout_s=60)
    else:
        withdraw(kubectl, spaces, names)
        for pool in (pool.name for pool in POOLS if pool.on_volume):
            words = ("-n", spaces.pods, "--ignore-not-found", "--wait=false")
            kubectl.run("delete", "persistentvolumeclaim", f"workspaces-{pool}", *words)


@pytest.fixture
def kept_pools(kubectl: Kubectl, system: Namespaces) -> Iterator[None]:
    """For tests that apply the deployment, which brings back the pools of its files: the tests' are declared again."""
    yield
    names = {pool.name for pool in POOLS}
    declare(kubectl, system, (*others(kubectl, system, names), *POOLS))


@pytest.fixture
def faults() -> Iterator[NodeFaults]:
    """Faults of nodes, taken back at the end."""
    found = NodeFaults.from_environment()
    if found is None:
        pytest.skip(f"no ${FAULTS_VARIABLE} names a program that does faults to nodes")
    with found.mended():
        yield found


@pytest.fixture
def audit_log() -> Path:
    """The API server's audit log."""
    found = find_audit_log()
    if found is None:
        pytest.skip("no $AGENT_SANDBOX_AUDIT_LOG names the API server's audit log")
    return found
