"""What overlays say anew is what the base says, but for what they are there for."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml
from tests.deploy.conftest import Manifest, named

from pool_manager.core.pod_form import pod_manifest
from pool_manager.core.pod_order import PodOrder
from pool_manager.core.pod_template import parse_template
from pool_manager.core.volume_form import keepers_manifest
from shared.pools import PoolSpec

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_worker_pods_of_a_small_cluster_differ_in_what_they_ask_for_alone() -> None:
    """So that a change of the base's template is not forgotten in the overlay's; and the manager can read both."""
    base, dev = (
        (DEPLOY / folder / "kubernetes.toml").read_text() for folder in ("base", "overlays/dev")
    )

    there, here = tomllib.loads(base), tomllib.loads(dev)
    sizes = {"sandbox_cpu", "sidecar"}
    assert {key: value for key, value in here.items() if key not in sizes} == there
    asked = parse_template(dev)
    assert asked.sandbox_cpu + asked.sidecar.cpu < parse_template(base).sandbox_cpu


def test_worker_pods_of_production_differ_in_their_images_alone() -> None:
    """Which come from the registry and under the tag of all other images of the overlay."""
    folder = DEPLOY / "overlays" / "production"
    base = tomllib.loads((DEPLOY / "base" / "kubernetes.toml").read_text())
    production = tomllib.loads((folder / "kubernetes.toml").read_text())

    images = {key for key in base if key.endswith("_image")}
    assert {key: value for key, value in production.items() if key not in images} == {
        key: value for key, value in base.items() if key not in images
    }
    given = yaml.safe_load((folder / "kustomization.yaml").read_text())["images"]
    [place] = {(one["newName"].removesuffix(one["name"]), one["newTag"]) for one in given}
    for key in images:
        name = base[key].partition(":")[0]
        assert production[key] == f"{place[0]}{name}:{place[1]}"


def test_what_production_may_have_at_most_holds_the_worker_pods_and_keepers_that_it_declares(
    manifests: list[Manifest],
) -> None:
    """Each container says what a quota counts; and the quota is no smaller than the pods of the template."""
    template = parse_template((DEPLOY / "base" / "kubernetes.toml").read_text())
    pool = PoolSpec(name="p", isolation="oci", workspace="pvc")
    pods = [
        pod_manifest(template, pool, PodOrder("p-0-1", "0", "oci"))["spec"],
        keepers_manifest(template, pool)["spec"]["template"]["spec"],
    ]
    for pod in pods:
        for container in (*pod["initContainers"], *pod["containers"]):
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]
    for quota in named(manifests, "ResourceQuota", template.namespace).values():
        assert int(quota["spec"]["hard"]["pods"]) > template.capacity
