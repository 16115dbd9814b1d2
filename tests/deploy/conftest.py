"""The manifests as `kubectl apply -k` would send them, parsed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_sandbox.provisioner import contents, setting_up
from agent_sandbox.provisioner.ports import Held, Place, Workload
from agent_sandbox.provisioner.setting_up import SettingUp
from agent_sandbox.provisioner.settings import ProvisionerSettings
from shared.settings import load

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


def named(manifests: list[Manifest], kind: str, namespace: str = "") -> dict[str, Manifest]:
    """Return the objects of a kind by name."""
    return {
        each["metadata"]["name"]: each
        for each in manifests
        if each["kind"] == kind and each["metadata"].get("namespace", "") == namespace
    }


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a selector takes pods of these labels."""
    plain = selector.get("matchLabels", {})
    if any(labels.get(key) != value for key, value in plain.items()):
        return False
    return all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", [])
    )


class Asked:
    """Stands in for the Kubernetes API: remembers what the provisioner asks of it."""

    def __init__(self) -> None:
        """Hold nothing."""
        self.verbs: set[tuple[str, str, str, str]] = set()
        self.held: dict[Place, dict[str, bytes]] = {}

    async def read(self, place: Place) -> Held | None:
        """Note a `get`."""
        self.verbs.add(("get", place.kind, place.namespace, place.name))
        return Held(self.held[place], "1") if place in self.held else None

    async def write(self, place: Place, data: dict[str, bytes], version: str | None) -> None:
        """Note a `create`; every kept object is updated some time."""
        self.verbs.add(("create", place.kind, place.namespace, ""))
        self.verbs.add(("update", place.kind, place.namespace, place.name))
        self.held[place] = data

    async def template_mark(self, kind: Workload, namespace: str, name: str) -> str | None:
        """Note a `get`."""
        self.verbs.add(("get", kind, namespace, name))
        return ""

    async def mark_template(self, kind: Workload, namespace: str, name: str, mark: str) -> None:
        """Note an `update`."""
        self.verbs.add(("update", kind, namespace, name))


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


@pytest.fixture
async def asked(manifests: list[Manifest]) -> Asked:
    """What the provisioner asks of the API while it sets up what stands in the manifests."""
    objects = Asked()
    env = next(
        container["env"]
        for name, container, _ in containers(manifests)
        if name.startswith("provisioner/")
    )
    settings = load(
        ProvisionerSettings, "PROVISIONER_", {each["name"]: each.get("value", "x") for each in env}
    )
    place = Place("ConfigMap", settings.namespace, setting_up.DECLARED_POOLS)
    objects.held[place] = {setting_up.POOLS_KEY: (DEPLOY / "base/pools.toml").read_bytes()}
    up = SettingUp(objects, settings, resolve=lambda _: ("10.0.0.1",))
    await up.look_at_secrets()
    # Once the servers are there:
    await objects.read(place)
    in_force = Place("ConfigMap", settings.namespace, setting_up.POOLS_IN_FORCE)
    await objects.read(in_force)
    await objects.write(in_force, {}, None)
    for name in ("pool-manager",):
        await objects.template_mark("Deployment", settings.namespace, name)
        await objects.mark_template("Deployment", settings.namespace, name, "2")
    await objects.mark_template("StatefulSet", settings.namespace, contents.STATEFUL_SET, "2")
    return objects
