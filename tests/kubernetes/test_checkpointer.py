"""Beside real kubelets: whose files are saved and restored, and with what rights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from harness.site import Site, open_site

from agent_sandbox.kubernetes.names import Namespaces
from agent_sandbox.places import TENANT
from shared.kubectl import Kubectl, wait_ready
from shared.testing.look import Look
from shared.testing.names import unique

POOL = "test-oci"
FORGED = "import os, time; open('/workspace/forged', 'w').close(); time.sleep(3600)"
CAPABILITIES = 1 << 0 | 1 << 1 | 1 << 3
"""CHOWN, DAC_OVERRIDE and FOWNER, as the kernel counts them."""


def forger(worker: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return a pod of another namespace that is called like a worker, on its node, with volumes called like its."""
    image = worker["spec"]["containers"][0]["image"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": worker["metadata"]["name"],
            "namespace": namespace,
            "annotations": {"pod-namespace": worker["metadata"]["namespace"]},
        },
        "spec": {
            "nodeName": worker["spec"]["nodeName"],
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "securityContext": {"fsGroup": 2000},
            "containers": [
                {
                    "name": "forger",
                    "image": image,
                    "command": ["python3", "-c", FORGED],
                    "securityContext": {"runAsUser": 1000},
                    "volumeMounts": [{"name": "workspace", "mountPath": "/workspace"}],
                }
            ],
            "volumes": [
                {"name": "workspace", "emptyDir": {}},
                {"name": "sidecar", "emptyDir": {}},
                {"name": "podinfo", "downwardAPI": {"items": [
                    {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
                    {"path": "namespace", "fieldRef": {"fieldPath": "metadata.annotations['pod-namespace']"}},
                ]}},
            ],
        },
    }  # fmt: skip


@pytest.fixture
def foreign(kubectl: Kubectl) -> Iterator[str]:
    """Another namespace."""
    name = unique("forger")
    kubectl.run("create", "namespace", name)
    try:
        yield name
    finally:
        kubectl.run("delete", "namespace", name, "--wait=false")


async def forge(site: Site, system: Namespaces, foreign: str) -> list[str]:
    """Start a forger for each worker of the pool; return their names."""
    workers = await asyncio.to_thread(
        site.kubectl.list, "pods", namespace=system.pods, labels=f"agent-sandbox.dev/pool={POOL}"
    )
    alive = [one for one in workers if "deletionTimestamp" not in one["metadata"]]
    manifests = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [forger(one, foreign) for one in alive],
    }
    await asyncio.to_thread(
        site.kubectl.run, "apply", "-f", "-", stdin=json.dumps(manifests), timeout_s=60
    )
    await asyncio.to_thread(
        site.kubectl.run, "wait", "pods", "--all", "-n", foreign, "--for=condition=Ready", "--timeout=90s", timeout_s=100
    )  # fmt: skip
    return [one["metadata"]["name"] for one in alive]


async def test_a_pod_of_another_namespace_gets_no_files_and_gives_none(
    system: Namespaces, foreign: str
) -> None:
    """Called like the worker that saves, and like each that may restore, on the same nodes, with the same volumes."""
    async with open_site() as site, site.client() as client:
        await site.wait_warm(POOL, 4)
        session = await client.create_session(pool=POOL)
        await session.write("own.txt", b"own")
        first = await Look(site.admin, TENANT).in_state(session.id, "running")
        assert first.owner is not None
        names = await forge(site, system, foreign)
        assert first.owner in names

        saved = await session.exec(["sh", "-c", "echo more >> own.txt; ls"])
        await asyncio.to_thread(
            site.kubectl.run, "delete", "pod", first.owner, "-n", system.pods, "--grace-period=0", "--force"
        )  # fmt: skip
        restored = await session.exec(["sh", "-c", "ls; cat own.txt"])
        assert (saved.stdout, restored.stdout) == ("own.txt\n", "own.txt\nownmore\n")
        assert restored.raw.worker in names
        for name in names:
            words = ("exec", "-n", foreign, name, "--", "ls", "/workspace")
            assert await asyncio.to_thread(site.kubectl.run, *words) == "forged\n"
        await session.close()


def test_a_checkpointer_has_three_capabilities_and_no_account(
    system: Namespaces, kubectl: Kubectl
) -> None:
    """Of root's rights, those over files of others; no token of the API server in its container."""
    wait_ready(kubectl, (system.nodes,), within_s=60)
    pods = kubectl.list("pods", namespace=system.nodes)
    name = pods[0]["metadata"]["name"]
    look = (
        "import os, re; said = open('/proc/1/status').read();"
        "print(*(int(re.search(rf'Cap{set}:\\s*(\\w+)', said)[1], 16) for set in ('Prm', 'Eff', 'Bnd', 'Inh')),"
        "re.search(r'NoNewPrivs:\\s*(\\d)', said)[1], os.path.exists('/var/run/secrets/kubernetes.io'))"
    )
    said = kubectl.run("exec", "-n", system.nodes, name, "--", "python", "-c", look)
    permitted, effective, bound, _, alone, has_token = said.split()
    assert {int(permitted), int(effective), int(bound)} == {CAPABILITIES}
    assert (alone, has_token) == ("1", "False")
