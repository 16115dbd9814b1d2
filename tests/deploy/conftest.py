"""The manifests as `kubectl apply -k` would send them, parsed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

Manifest = dict[str, Any]
DEPLOY = Path(__file__).parents[2] / "deploy"
OVERLAYS = ("dev", "production")


def pod_templates(manifests: list[Manifest]) -> Iterator[tuple[str, str, Manifest]]:
    """Yield name, namespace and pod template of each workload."""
    for manifest in manifests:
        if manifest["kind"] in ("Deployment", "StatefulSet", "DaemonSet"):
            metadata = manifest["metadata"]
            yield metadata["name"], metadata["namespace"], manifest["spec"]["template"]


def containers(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest, Manifest]]:
    """Yield the workload's name, the container and its pod's spec."""
    for name, _, template in pod_templates(manifests):
        for container in (
            template["spec"].get("initContainers", []) + template["spec"]["containers"]
        ):
            yield f"{name}/{container['name']}", container, template["spec"]


@pytest.fixture(scope="session", params=OVERLAYS)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    """All objects of an overlay."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    run = subprocess.run(
        ["kubectl", "kustomize", DEPLOY / "overlays" / request.param],
        check=False,
        capture_output=True,
        timeout=30,
    )
    assert run.returncode == 0, run.stderr.decode()
    return [each for each in yaml.safe_load_all(run.stdout) if each]
