"""What `kubectl apply -k` sends hangs together: nothing names what is not there, nobody has more rights than it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from checkpointer.settings import CheckpointerSettings
from client_edge.settings import EdgeSettings
from gateway.settings import GatewaySettings
from pool_manager.core.pod_template import PodTemplate, parse_template
from pool_manager.settings import PoolSettings
from tests.deploy.conftest import DEPLOY, Manifest, containers, pod_templates

from agent_sandbox.provisioner import contents, setting_up
from agent_sandbox.provisioner.ports import Held, Place, Workload
from agent_sandbox.provisioner.setting_up import SettingUp
from agent_sandbox.provisioner.settings import ProvisionerSettings
from shared.pools import parse_pools
from shared.settings import load

SETTINGS: Mapping[str, tuple[str, type[msgspec.Struct]]] = {
    "agent_sandbox.provisioner": ("PROVISIONER_", ProvisionerSettings),
    "checkpointer": ("CHECKPOINTER_", CheckpointerSettings),
    "client_edge": ("EDGE_", EdgeSettings),
    "gateway": ("GATEWAY_", GatewaySettings),
    "pool_manager": ("POOL_", PoolSettings),
}
"""Module that a container starts -> its settings."""
NODES = "agent-sandbox-nodes"
"""The one namespace in which pods reach into their node."""


def named(manifests: list[Manifest], kind: str, namespace: str = "") -> dict[str, Manifest]:
    """Return the objects of a kind by name."""
    return {
        each["metadata"]["name"]: each
        for each in manifests
        if each["kind"] == kind and each["metadata"].get("namespace", "") == namespace
    }


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


def test_no_object_is_there_twice(manifests: list[Manifest]) -> None:
    """Kind, namespace and name are one object's."""
    seen = [
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for each in manifests
    ]

    assert len(seen) == len(set(seen))


def test_every_namespace_is_there_and_says_what_it_lets_in(manifests: list[Manifest]) -> None:
    """Only where checkpointers are may pods reach into their node."""
    spaces = named(manifests, "Namespace")
    used = {each["metadata"]["namespace"] for each in manifests if "namespace" in each["metadata"]}

    assert used == set(spaces)
    for name, space in spaces.items():
        level = space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        assert level == ("privileged" if name == NODES else "restricted")


def test_every_image_is_built_here(manifests: list[Manifest]) -> None:
    """By `./dev images`, also those that pool-managers give to worker pods."""
    built = {f"agent-sandbox/{file.stem}" for file in DEPLOY.glob("images/*.Dockerfile")}
    template = worker_template(manifests)
    used = {container["image"] for _, container, _ in containers(manifests)}
    used |= {template.worker_image, template.sandbox_image}

    assert {
        re.sub(r"^.*/(agent-sandbox/)", r"\1", image).partition(":")[0] for image in used
    } == built


def worker_template(manifests: list[Manifest]) -> PodTemplate:
    """Return what all worker pods have in common."""
    data = named(manifests, "ConfigMap", "agent-sandbox")["worker-pods"]["data"]
    return parse_template(data["kubernetes.toml"])


def test_the_files_in_config_maps_are_understood(manifests: list[Manifest]) -> None:
    """By those who read them; what they name is there."""
    maps = named(manifests, "ConfigMap", "agent-sandbox")
    template = worker_template(manifests)

    assert parse_pools(maps["agent-sandbox-pools"]["data"]["pools.toml"])
    assert template.namespace in named(manifests, "Namespace")
    assert template.service_account in named(manifests, "ServiceAccount", template.namespace)
    assert template.priority_class in named(manifests, "PriorityClass")


def test_no_container_runs_unbounded_or_unconfined(manifests: list[Manifest]) -> None:
    """Limits, no new rights, no capabilities but the checkpointer's, a root file system that nobody writes."""
    for name, container, pod in containers(manifests):
        resources, confined = container["resources"], container["securityContext"]
        assert {"cpu", "memory"} <= resources["requests"].keys(), name
        assert {"cpu", "memory"} <= resources["limits"].keys(), name
        assert confined["allowPrivilegeEscalation"] is False, name
        assert confined["readOnlyRootFilesystem"] is True, name
        assert confined["capabilities"]["drop"] == ["ALL"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        is_checkpointer = name == "checkpointer/checkpointer"
        assert ("add" in confined["capabilities"]) == is_checkpointer, name
        assert bool(pod["securityContext"].get("runAsNonRoot")) != is_checkpointer, name
        assert not pod.get("hostNetwork")
        assert not pod.get("hostPID")


def test_every_container_is_probed_on_a_port_that_it_has(manifests: list[Manifest]) -> None:
    """Whether it lives, whether it works; a rollout goes on when it does."""
    for name, container, _ in containers(manifests):
        ports = {port["name"] for port in container["ports"]}
        for probe in ("readinessProbe", "livenessProbe"):
            assert container[probe]["httpGet"]["port"] in ports, name


def test_every_setting_is_one_that_its_service_knows(manifests: list[Manifest]) -> None:
    """A misspelt variable would end the service at its start."""
    for name, container, _ in containers(manifests):
        if container["command"][:2] != ["python", "-m"]:
            continue
        prefix, kind = SETTINGS[container["command"][2]]
        environ = {each["name"]: each.get("value", "a-name") for each in container["env"]}
        assert all(variable.startswith(prefix) for variable in environ), name
        load(kind, prefix, environ)


async def test_every_config_map_and_secret_that_a_pod_mounts_is_there(
    manifests: list[Manifest], asked: Asked
) -> None:
    """In the manifests, or made by the provisioner; and each volume that a container mounts is its pod's."""
    here = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for each in manifests
    }
    made = {(place.kind, place.namespace, place.name) for place in asked.held}
    for name, namespace, template in pod_templates(manifests):
        spec = template["spec"]
        for volume in spec.get("volumes", []):
            if "secret" in volume:
                assert ("Secret", namespace, volume["secret"]["secretName"]) in made, name
            if "configMap" in volume:
                assert ("ConfigMap", namespace, volume["configMap"]["name"]) in here | made, name
    for name, container, spec in containers(manifests):
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        claims = {"data"} if name == "nats/nats" else set()
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes | claims
        for source in container.get("envFrom", []):
            assert source["configMapRef"]["optional"], "an overlay may add it"
    template = worker_template(manifests)
    assert ("Secret", template.namespace, template.enrol_secret) in made


def _matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    plain = selector.get("matchLabels", {})
    if any(labels.get(key) != value for key, value in plain.items()):
        return False
    return all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", [])
    )


def test_services_and_budgets_select_pods_that_are_there(manifests: list[Manifest]) -> None:
    """And each port of a service is one of theirs."""
    templates = [
        (space, template["metadata"]["labels"], template["spec"])
        for _, space, template in pod_templates(manifests)
    ]
    for each in manifests:
        space = each["metadata"].get("namespace")
        if each["kind"] == "Service":
            found = [
                spec
                for where, labels, spec in templates
                if where == space and _matches({"matchLabels": each["spec"]["selector"]}, labels)
            ]
            ports = {p["name"] for spec in found for c in spec["containers"] for p in c["ports"]}
            assert {port["targetPort"] for port in each["spec"]["ports"]} <= ports
        if each["kind"] == "PodDisruptionBudget":
            assert any(
                where == space and _matches(each["spec"]["selector"], labels)
                for where, labels, _ in templates
            )


def test_network_policies_deny_by_default_and_name_what_is_there(manifests: list[Manifest]) -> None:
    """Each namespace is shut both ways; what a policy opens is a port of the pods that it is about."""
    templates = [
        (space, template["metadata"]["labels"], template["spec"])
        for _, space, template in pod_templates(manifests)
    ]
    for space in named(manifests, "Namespace"):
        policies = named(manifests, "NetworkPolicy", space)
        assert policies["default-deny"]["spec"] == {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
        }
        for name, policy in policies.items():
            spec = policy["spec"]
            found = [
                pod
                for where, labels, pod in templates
                if where == space and _matches(spec["podSelector"], labels)
            ]
            if space != "agent-sandbox-pods":
                assert found, f"{space}/{name} is about nobody"
            ports = {
                p["containerPort"] for pod in found for c in pod["containers"] for p in c["ports"]
            }
            for rule in spec.get("ingress", []):
                assert rule["from"], f"{space}/{name} lets in anybody"
                assert {port["port"] for port in rule["ports"]} <= ports


def test_rights_are_those_that_are_needed(manifests: list[Manifest]) -> None:
    """No wildcards, no rights of the provisioner's kind elsewhere, and each binding binds what is there."""
    for each in manifests:
        space = each["metadata"].get("namespace", "")
        if each["kind"] in ("Role", "ClusterRole"):
            for rule in each["rules"]:
                assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
                if "secrets" in rule["resources"]:
                    assert each["metadata"]["name"] == "provisioner"
        if each["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            role = each["roleRef"]
            assert role["name"] in named(
                manifests, role["kind"], space if role["kind"] == "Role" else ""
            )
            for subject in each["subjects"]:
                assert subject["name"] in named(manifests, "ServiceAccount", subject["namespace"])
    for name, space, template in pod_templates(manifests):
        account = named(manifests, "ServiceAccount", space)[template["spec"]["serviceAccountName"]]
        assert account["automountServiceAccountToken"] is False
        has_token = template["spec"]["automountServiceAccountToken"]
        assert has_token == (name in ("provisioner", "pool-manager"))


async def test_the_provisioner_may_do_what_it_does(manifests: list[Manifest], asked: Asked) -> None:
    """Each request that it makes is granted by its roles, and each grant is used by one."""
    plural = {
        "Secret": "secrets", "ConfigMap": "configmaps", "Deployment": "deployments", "StatefulSet": "statefulsets",
    }  # fmt: skip
    granted = set()
    for space in named(manifests, "Namespace"):
        for rule in named(manifests, "Role", space).get("provisioner", {"rules": []})["rules"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    granted |= {
                        (verb, resource, space, name) for name in rule.get("resourceNames", [""])
                    }
    needed = {(verb, plural[kind], space, name) for verb, kind, space, name in asked.verbs}
    free = {grant[:3] for grant in granted if not grant[3]}

    assert {each for each in needed if each not in granted and each[:3] not in free} == set()
    assert {g for g in granted if g not in needed and g[:3] not in {n[:3] for n in needed}} == set()
