"""What `kubectl apply -k` sends hangs together: nothing names what is not there, nobody has more rights than it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
import yaml
from tests.deploy.conftest import DEPLOY, Asked, Manifest, containers, matches, named, pod_templates

from agent_sandbox.provisioner.settings import ProvisionerSettings
from checkpointer.settings import CheckpointerSettings
from client_edge.settings import EdgeSettings
from gateway.settings import GatewaySettings
from pool_manager.core.pod_template import PodTemplate, parse_template
from pool_manager.settings import PoolSettings
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


def test_every_container_is_probed_on_a_port_that_it_has(manifests: list[Manifest]) -> None:
    """Whether it lives, whether it works; a rollout goes on when it does."""
    for name, container, _ in containers(manifests):
        ports = {port["name"] for port in container["ports"]}
        for probe in ("readinessProbe", "livenessProbe"):
            assert container[probe]["httpGet"]["port"] in ports, name


def test_replicas_of_a_service_are_never_all_on_one_node(manifests: list[Manifest]) -> None:
    """Also after nodes died one after the other, and after a rollout: else one node's death would leave nobody to notice it."""
    spread = {
        manifest["metadata"]["name"]: manifest["spec"]["template"]["spec"].get(
            "topologySpreadConstraints", [{}]
        )[0]
        for manifest in manifests
        if manifest["kind"] == "Deployment" and manifest["spec"].get("replicas", 1) > 1
    }
    assert spread.keys() >= {"pool-manager", "gateway"}
    for name, one in spread.items():
        assert (one.get("topologyKey"), one.get("whenUnsatisfiable")) == (
            "kubernetes.io/hostname",
            "DoNotSchedule",
        ), name
        assert one["matchLabelKeys"] == ["pod-template-hash"], name


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
                if where == space and matches({"matchLabels": each["spec"]["selector"]}, labels)
            ]
            ports = {p["name"] for spec in found for c in spec["containers"] for p in c["ports"]}
            assert {port["targetPort"] for port in each["spec"]["ports"]} <= ports
        if each["kind"] == "PodDisruptionBudget":
            assert any(
                where == space and matches(each["spec"]["selector"], labels)
                for where, labels, _ in templates
            )


def test_every_runtime_class_that_worker_pods_may_name_is_shipped(
    manifests: list[Manifest],
) -> None:
    """With what it costs, and which nodes have it: nobody starts a pod where its runtime is not."""
    folder = DEPLOY / "runtime-classes"
    files = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    found = [yaml.safe_load((folder / file).read_text()) for file in files]
    shipped = {each["metadata"]["name"]: each for each in found}
    named_ones = {name for name in worker_template(manifests).runtime_classes.values() if name}

    assert set(shipped) == named_ones
    for each in shipped.values():
        assert {"cpu", "memory"} <= each["overhead"]["podFixed"].keys()
        assert each["scheduling"]["nodeSelector"]
