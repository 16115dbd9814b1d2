"""The overlay for production, as an API server takes it: with no error, and no warning of its rules for pods."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.kubernetes.conftest import ROOT

from agent_sandbox.kubernetes.names import Namespaces
from shared.kubectl import Kubectl
from shared.testing.names import unique

OVERLAY = ROOT / "deploy" / "overlays" / "production"
STRICT = "pod-security.kubernetes.io/warn"


@pytest.fixture
def beside(kubectl: Kubectl, spaces: Namespaces) -> Iterator[dict[str, str]]:
    """Namespaces like the system's, under names of their own: there may be a system of another overlay."""
    names = {space: unique(f"{space}-x") for space in spaces}
    yield names
    for name in names.values():
        kubectl.run("delete", "namespace", name, "--ignore-not-found", "--wait=false")


def renamed(found: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return an object as it is in those namespaces."""
    meta = found["metadata"]
    if found["kind"] == "Namespace":
        meta["name"] = names[meta["name"]]
        meta["labels"][STRICT] = meta["labels"]["pod-security.kubernetes.io/enforce"]
    elif "namespace" in meta:
        meta["namespace"] = names[meta["namespace"]]
    return found


def test_the_api_server_takes_all_of_it_without_a_warning(
    kubectl: Kubectl, beside: dict[str, str]
) -> None:
    """Nothing is kept but the namespaces, for as long as the test lasts."""
    text = kubectl.run("kustomize", str(OVERLAY))
    objects = [renamed(each, beside) for each in yaml.safe_load_all(text) if each]
    spaces = [each for each in objects if each["kind"] == "Namespace"]
    kubectl.run("apply", "-f", "-", stdin=_listed(spaces))

    command = kubectl.command("apply", "--dry-run=server", "-f", "-")
    done = subprocess.run(
        command, input=_listed(objects), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(objects)
    warnings = [line for line in done.stderr.splitlines() if "last-applied" not in line]
    assert [line for line in warnings if "WARNING" in line.upper()] == []


def _listed(objects: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
