"""The form of worker pods: what must hold for each class, whatever a template and a pool say."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from pool_manager.core.pod_form import LANES, pod_manifest
from pool_manager.core.pod_order import PodOrder
from pool_manager.core.pod_template import PodClass, PodTemplate
from shared.pools import PodLimits, PoolSpec

TEMPLATE = PodTemplate(
    namespace="pods",
    worker_image="agent-sandbox/worker:1",
    sandbox_image="agent-sandbox/sandbox:1",
    nats_servers=("nats://a:4222", "nats://b:4222"),
)
POOL = PoolSpec(name="default", limits=PodLimits(memory_mib=256, pids=64, disk_mib=100, cpu=0.5))
CLASSES: tuple[PodClass, ...] = get_args(PodClass)


def form(
    isolation: PodClass,
    pool: PoolSpec = POOL,
    order: dict[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Return a pod of a class, by an order and of a template with changes."""
    template = msgspec.structs.replace(TEMPLATE, **changes)
    return pod_manifest(template, pool, PodOrder("default-0-1", "0", isolation, **(order or {})))


def parts(pod: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the sidecar and the sandbox."""
    [sidecar], [sandbox] = pod["spec"]["initContainers"], pod["spec"]["containers"]
    return sidecar, sandbox


def volumes_of(container: dict[str, Any]) -> dict[str, bool]:
    """Return the names of a container's volumes, and which it may write."""
    return {mount["name"]: not mount.get("readOnly", False) for mount in container["volumeMounts"]}


def option(sandbox: dict[str, Any], name: str) -> str:
    """Return what the sandbox's first process is told."""
    found: str = sandbox["args"][sandbox["args"].index(name) + 1]
    return found


@pytest.mark.parametrize("isolation", CLASSES)
def test_every_pod_keeps_the_restricted_standard(isolation: PodClass) -> None:
    """Pod Security `restricted`, rule by rule; the namespace enforces it too."""
    pod = form(isolation, order={"user_namespace": True})
    spec = pod["spec"]

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} & {
        name for name, value in spec.items() if value is True
    }
    for container in parts(pod):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["runAsUser"] > 0
        assert "ports" not in container
    assert {kind for volume in spec["volumes"] for kind in volume} == {
        "name", "emptyDir", "projected",
    }  # fmt: skip


@pytest.mark.parametrize("isolation", CLASSES)
def test_the_sandbox_has_nothing_of_the_sidecar_s(isolation: PodClass) -> None:
    """No token, no credential, no mark, no environment; another uid; it can not even replace the socket."""
    pod = form(isolation)
    sidecar, sandbox = parts(pod)

    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["enableServiceLinks"] is False
    assert volumes_of(sandbox) == {"workspace": True, "channel": False, "tmp": True}
    assert volumes_of(sidecar) == {
        "workspace": False, "channel": True, "sidecar": True, "enrol": False,
    }  # fmt: skip
    assert "env" not in sandbox
    assert sandbox["securityContext"]["runAsUser"] != sidecar["securityContext"]["runAsUser"]


@pytest.mark.parametrize("isolation", CLASSES)
def test_a_pod_serves_one_session_and_is_never_started_again(isolation: PodClass) -> None:
    """The sandbox never; the sidecar is, by the kubelet, and finds its mark."""
    pod = form(isolation)
    sidecar, sandbox = parts(pod)

    assert pod["spec"]["restartPolicy"] == "Never"
    assert sidecar["restartPolicy"] == "Always"
    assert "restartPolicy" not in sandbox


@pytest.mark.parametrize("isolation", CLASSES)
def test_sizes_are_the_pool_s(isolation: PodClass) -> None:
    """What the runtime bounds, what the kubelet bounds, and what the sandbox's first process is told to."""
    pod = form(isolation)
    sidecar, sandbox = parts(pod)
    sizes = {
        v["name"]: v["emptyDir"]["sizeLimit"] for v in pod["spec"]["volumes"] if "emptyDir" in v
    }

    assert sandbox["resources"]["limits"]["memory"] == "256Mi"
    assert sandbox["resources"]["limits"]["cpu"] == "0.5"
    assert (option(sandbox, "--pids"), option(sandbox, "--disk-mib")) == ("64", "100")
    assert sizes == {"workspace": "100Mi", "tmp": "64Mi", "channel": "1Mi", "sidecar": "16Mi"}
    for container in (sidecar, sandbox):
        wanted, most = container["resources"]["requests"], container["resources"]["limits"]
        assert wanted.keys() == most.keys() == {"cpu", "memory", "ephemeral-storage"}


def test_no_part_of_a_small_pool_is_larger_than_the_pool() -> None:
    """A request above its limit would be refused by the API server."""
    small = PoolSpec(name="small", limits=PodLimits(memory_mib=32, cpu=0.01))
    pod = form("oci", small)
    _, sandbox = parts(pod)
    [tmp] = [v for v in pod["spec"]["volumes"] if v["name"] == "tmp"]

    assert sandbox["resources"]["requests"]["memory"] == "32Mi"
    assert sandbox["resources"]["requests"]["cpu"] == "0.01"
    assert tmp["emptyDir"]["sizeLimit"] == "32Mi"


def test_each_class_has_its_runtime_and_is_told_to_the_sidecar() -> None:
    """The sidecar tries it from inside: a RuntimeClass may lead elsewhere."""
    runtimes, told = {}, {}
    for isolation in CLASSES:
        pod = form(isolation, runtime_classes={"oci": "", "gvisor": "runsc", "kata": "kata-qemu"})
        runtimes[isolation] = pod["spec"].get("runtimeClassName")
        told[isolation] = {e["name"]: e.get("value") for e in parts(pod)[0]["env"]}["POD_ISOLATION"]

    assert runtimes == {"oci": None, "gvisor": "runsc", "kata": "kata-qemu"}
    assert told == {isolation: isolation for isolation in CLASSES}


def test_user_namespaces_are_for_the_nodes_own_runtime() -> None:
    """gVisor refuses them, and neither it nor Kata needs them."""
    asked = {i: form(i, order={"user_namespace": True})["spec"].get("hostUsers") for i in CLASSES}

    assert asked == {"oci": False, "gvisor": None, "kata": None}
    assert "hostUsers" not in form("oci")["spec"]


def test_in_gvisor_the_socket_s_volume_is_the_sandbox_s_own_and_the_workspace_is_not() -> None:
    """A socket joins two containers there only so, and what is so the node does not see."""
    marked = {isolation: form(isolation)["metadata"]["annotations"] for isolation in CLASSES}

    assert marked["oci"] == marked["kata"] == {LANES: ""}
    assert marked["gvisor"] == {
        LANES: "",
        "dev.gvisor.spec.mount.channel.type": "tmpfs",
        "dev.gvisor.spec.mount.channel.share": "pod",
        "dev.gvisor.spec.mount.channel.options": "rw",
    }


def test_a_profile_of_the_nodes_is_for_the_sandbox() -> None:
    """The sidecar keeps the runtime's own."""
    sidecar, sandbox = parts(form("oci", seccomp_profile="agent-sandbox.json"))

    assert "seccompProfile" not in sidecar["securityContext"]
    assert sandbox["securityContext"]["seccompProfile"] == {
        "type": "Localhost", "localhostProfile": "agent-sandbox.json",
    }  # fmt: skip


def test_a_pool_s_own_image_runs_the_same_first_process() -> None:
    """Nothing may run in it that did not confine itself first, whatever the image's entry point."""
    image = "example/numpy:1"
    own = parts(form("oci", msgspec.structs.replace(POOL, image=image)))[1]
    usual = parts(form("oci"))[1]

    assert own["image"] == image
    assert own | {"image": ""} == usual | {"image": ""}


def test_an_orderly_end_is_shorter_than_the_grace() -> None:
    """Else the kill would come in the middle of the last save."""
    for grace_s in (1, 4, 30, 600):
        pod = form("oci", stop_grace_s=grace_s)
        told = {e["name"]: e.get("value") for e in parts(pod)[0]["env"]}

        assert pod["spec"]["terminationGracePeriodSeconds"] == grace_s
        assert 0 < float(told["POD_DRAIN_S"]) <= max(grace_s - 5, 1)


def test_what_only_some_clusters_have_is_there_where_it_is_wished() -> None:
    """TLS, places, pull secrets, priorities; nodes that are dead before Kubernetes knows."""
    pod = form(
        "oci",
        order={"avoid": ("node-2",)},
        nats_ca_config_map="nats-ca",
        checkpointer=False,
        node_selector={"sandboxes": "yes"},
        tolerations=({"key": "sandboxes", "operator": "Exists"},),
        image_pull_secrets=("registry",),
        priority_class="low",
    )
    spec, told = pod["spec"], {e["name"]: e.get("value") for e in parts(pod)[0]["env"]}
    [enrol] = [v["projected"]["sources"] for v in spec["volumes"] if "projected" in v]
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]

    assert told["POD_CA_FILE"] == "/run/enrol/ca.crt"
    assert told["POD_CHECKPOINTER"] == "false"
    assert {"configMap", "secret", "serviceAccountToken"} == {
        kind for each in enrol for kind in each
    }
    assert spec["nodeSelector"] == {"sandboxes": "yes"}
    assert spec["tolerations"] == [{"key": "sandboxes", "operator": "Exists"}]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["priorityClassName"] == "low"
    assert term["matchFields"][0]["values"] == ["node-2"]
    plain = form("oci")["spec"]
    assert not {"nodeSelector", "tolerations", "imagePullSecrets", "affinity"} & plain.keys()
