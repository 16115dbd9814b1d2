"""Volumes of pools: what is made for one, what is said where something misses, and the pods that mount it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pool_manager.core.kube_pods import Labels, read_pod
from pool_manager.core.pod_form import pod_manifest
from pool_manager.core.pod_order import PodOrder
from pool_manager.core.pod_template import PodTemplate
from pool_manager.core.volume_form import claim_manifest, keepers_manifest
from pool_manager.core.volume_state import (
    LOOK_S,
    SOON_S,
    ClaimView,
    DeploymentView,
    judge,
    next_look_s,
)
from shared.kube.views import PodView
from shared.pools import PoolSpec, Volume

TEMPLATE = PodTemplate(
    namespace="pods",
    worker_image="w",
    sandbox_image="s",
    services_image="keepers:1",
    nats_servers=("nats://n:4222",),
)
POOL = PoolSpec(
    name="large",
    isolation="oci",
    workspace="pvc",
    volume=Volume(storage_class="shared", size_gib=5),
)


def claim(phase: str = "Bound", **changes: Any) -> ClaimView:
    """Return the pool's claim."""
    made = claim_manifest(TEMPLATE, POOL)
    made["spec"] |= changes
    return msgspec.convert({**made, "status": {"phase": phase}}, ClaimView)


def keepers(available: int = 2, template: PodTemplate = TEMPLATE) -> DeploymentView:
    """Return the pool's keepers."""
    made = keepers_manifest(template, POOL)
    return msgspec.convert({**made, "status": {"availableReplicas": available}}, DeploymentView)


def test_where_all_is_there_nothing_is_done_or_said() -> None:
    """A claim that has grown by somebody's hand is as good."""
    grown = claim(resources={"requests": {"storage": "500Gi"}})
    assert judge(TEMPLATE, POOL, grown, keepers()) == judge(TEMPLATE, POOL, claim(), keepers())
    verdict = judge(TEMPLATE, POOL, claim(), keepers())
    assert (verdict.acts, verdict.problem) == ((), "")


@pytest.mark.parametrize(
    ("found", "acts", "said"),
    [
        ((None, None), ("create claim",), ["claimed"]),
        ((claim("Pending"), None), ("create keepers",), ["workspaces-large", "(shared)", "Pending"]),
        ((claim(), keepers(0)), (), ["no keeper"]),
        ((claim("Lost"), keepers()), (), ["lost"]),
        ((claim(storageClassName="other"), None), (), ["other", "not shared", "another pool"]),
        ((claim(accessModes=["ReadWriteOnce"]), None), (), ["ReadWriteOnce", "not ReadWriteMany"]),
    ],
)  # fmt: skip
def test_what_misses_is_made_once_and_said(
    found: tuple[ClaimView | None, DeploymentView | None], acts: tuple[str, ...], said: list[str]
) -> None:
    """A claim that is another than the pool's is never touched: it holds sessions."""
    verdict = judge(TEMPLATE, POOL, *found)
    assert verdict.acts == acts
    assert [word for word in said if word not in verdict.problem] == []


def test_keepers_of_a_former_form_are_replaced() -> None:
    """They work on meanwhile, so nothing is said."""
    former = keepers(template=msgspec.structs.replace(TEMPLATE, services_image="keepers:0"))
    verdict = judge(TEMPLATE, POOL, claim(), former)
    assert (verdict.acts, verdict.problem) == (("update keepers",), "")


def test_without_an_image_for_keepers_the_pool_says_which_setting_it_needs() -> None:
    """And nothing is made."""
    verdict = judge(msgspec.structs.replace(TEMPLATE, services_image=""), POOL, None, None)
    assert verdict.acts == ()
    assert "services_image" in verdict.problem


def test_only_the_sandbox_mounts_the_pods_own_folder_of_the_volume() -> None:
    """Its code runs on a lease there, and no start of a pod walks through all files to change their group."""
    spec = pod_manifest(TEMPLATE, POOL, PodOrder("large-0-1", "0", "oci"))["spec"]
    [sidecar], [sandbox] = spec["initContainers"], spec["containers"]

    assert {"name": "workspace", "mountPath": "/workspace", "subPath": "pods/large-0-1"} in sandbox["volumeMounts"]  # fmt: skip
    assert "workspace" not in {mount["name"] for mount in sidecar["volumeMounts"]}
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert volumes["workspace"]["persistentVolumeClaim"] == {"claimName": "workspaces-large"}
    assert sandbox["args"][2:6] == ["--workspace", "/workspace/files", "--volume", "/workspace"]
    assert spec["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def test_keepers_keep_the_restricted_standard_and_another_user_than_sandboxes() -> None:
    """What empties the trash is the sandboxes' user, and mounts nothing else."""
    spec = keepers_manifest(TEMPLATE, POOL)["spec"]["template"]["spec"]
    every = [*spec["initContainers"], *spec["containers"]]
    assert spec["automountServiceAccountToken"] is False
    for container in every:
        security = container["securityContext"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert (security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]) == (False, True)  # fmt: skip
    users = {one["name"]: one["securityContext"]["runAsUser"] for one in every}
    assert users == {"begin": 1002, "keeper": 1002, "remover": 1000}
    [remover] = [one for one in every if one["name"] == "remover"]
    assert remover["volumeMounts"] == [
        {"name": "volume", "mountPath": "/trash", "subPath": "trash"}
    ]


@pytest.mark.parametrize(
    ("sidecar", "sandbox", "stopped"),
    [("terminated", "terminated", True), ("terminated", "running", False), ("running", "terminated", False)],
)  # fmt: skip
def test_only_a_kubelet_that_saw_both_containers_end_is_a_proof(
    sidecar: str, sandbox: str, stopped: bool
) -> None:
    """Whoever takes a pod from the API server's books writes its phase, not its containers' states."""
    labels = Labels("pool", "isolation", "lanes", "form")
    view = msgspec.convert(
        {
            "metadata": {"name": "large-0-1"},
            "status": {
                "phase": "Failed",
                "initContainerStatuses": [{"name": "sidecar", "state": {sidecar: {}}}],
                "containerStatuses": [{"name": "sandbox", "state": {sandbox: {}}}],
            },
        },
        PodView,
    )
    over = read_pod(view, labels).over
    assert over is not None
    assert over.stopped is stopped


def test_a_lasting_problem_is_looked_at_ever_later() -> None:
    """One that is new or changes is looked at soon; one that lasts costs no more than none."""
    wrong, waits = {"large": "no such class"}, [next_look_s(LOOK_S, {}, {"large": "no such class"})]
    for _ in range(8):
        waits.append(next_look_s(waits[-1], wrong, wrong))

    assert (waits[0], waits[-1]) == (SOON_S, LOOK_S)
    assert waits == sorted(waits)
    assert next_look_s(LOOK_S, wrong, {"large": "no keeper"}) == SOON_S
    assert next_look_s(SOON_S, wrong, {}) == LOOK_S


def test_all_pods_of_a_volume_that_one_node_has_are_beside_each_other() -> None:
    """Keepers and workers name one label, and carry it: the first goes anywhere, the others follow. Those of a shared volume do not."""
    volume = Volume(storage_class="disk", access_mode="ReadWriteOnce")
    single = msgspec.structs.replace(POOL, volume=volume)
    keeper = keepers_manifest(TEMPLATE, single)["spec"]["template"]
    worker = pod_manifest(TEMPLATE, single, PodOrder("large-0-1", "0", "oci", avoid=("n-1",)))
    for pod in (keeper, worker):
        [term] = pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]  # fmt: skip
        wanted = term["labelSelector"]["matchLabels"]
        assert wanted.items() <= pod["metadata"]["labels"].items()
        assert term["topologyKey"] == "kubernetes.io/hostname"
    assert "nodeAffinity" in worker["spec"]["affinity"]
    assert claim_manifest(TEMPLATE, single)["spec"]["accessModes"] == ["ReadWriteOnce"]

    shared = pod_manifest(TEMPLATE, POOL, PodOrder("large-0-1", "0", "oci"))
    assert "affinity" not in shared["spec"]
    assert "podAffinity" not in keepers_manifest(TEMPLATE, POOL)["spec"]["template"]["spec"]["affinity"]  # fmt: skip
