"""Which isolation classes a Kubernetes cluster has, and why not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pool_manager.core.kube_classes import classes, has_user_namespaces
from pool_manager.core.pod_template import PodTemplate
from shared.kube.views import RuntimeHandler
from shared.testing.kube_objects import node_view, runtime

TEMPLATE = PodTemplate(
    namespace="pods", worker_image="w", sandbox_image="s", nats_servers=("nats://n:4222",)
)

GVISOR = runtime("gvisor", "runsc")
TAINT = {"key": "sandbox", "value": "gvisor", "effect": "NoSchedule"}


def of(nodes: list[Any], *runtimes: Any, **template: Any) -> dict[str, str]:
    """Return the classes of a cluster."""
    changed = msgspec.structs.replace(TEMPLATE, **template)
    return classes(changed, nodes, {each.metadata.name: each for each in runtimes})


def test_a_plain_cluster_has_oci_alone() -> None:
    """The others name what is missing."""
    found = of([node_view()])
    assert found["oci"] == ""
    assert found["gvisor"] == "there is no RuntimeClass gvisor"
    assert found["kata"] == "there is no RuntimeClass kata"
    assert "oci, gvisor or kata" in found["namespace"]


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ({}, ""),
        ({"handlers": ["", "runc", "runsc"]}, ""),
        ({"handlers": ["", "runc"]}, "no Ready node's container runtime has the handler runsc"),
        ({"ready": False}, "no node is Ready"),
        ({"unschedulable": True}, "no node is Ready"),
        ({"taints": [TAINT]}, "every Ready node has a taint that pods do not tolerate: sandbox"),
        ({"taints": [{**TAINT, "effect": "PreferNoSchedule"}]}, ""),
    ],
)
def test_gvisor_needs_a_node_that_has_it(node: dict[str, Any], why: str) -> None:
    """A RuntimeClass alone is a name."""
    assert of([node_view(**node)], GVISOR)["gvisor"] == why


def test_one_good_node_is_enough() -> None:
    """Kubernetes finds it."""
    bad = [node_view("n1", ready=False), node_view("n2", handlers=["runc"])]
    assert of([*bad, node_view("n3", handlers=["runsc"])], GVISOR)["gvisor"] == ""


def test_where_a_class_is_scheduled_to_counts() -> None:
    """Its node selector and its tolerations add to the template's."""
    selected = runtime("gvisor", "runsc", nodeSelector={"sandbox": "gvisor"})
    why = "no Ready node has the labels sandbox=gvisor"
    assert of([node_view()], selected)["gvisor"] == why
    assert of([node_view(labels={"sandbox": "gvisor"})], selected)["gvisor"] == ""
    tainted = [node_view(taints=[TAINT])]
    tolerated = runtime("gvisor", "runsc", tolerations=[{"key": "sandbox", "operator": "Exists"}])
    assert of(tainted, tolerated)["gvisor"] == ""
    equal = {"key": "sandbox", "operator": "Equal", "value": "gvisor", "effect": "NoSchedule"}
    assert of(tainted, GVISOR, tolerations=(equal,))["gvisor"] == ""
    assert of(tainted, GVISOR, tolerations=({**equal, "value": "else"},))["gvisor"] != ""
    assert of(tainted, GVISOR, tolerations=({"operator": "Exists"},))["oci"] == ""


def test_a_class_that_the_template_does_not_name_is_not_there() -> None:
    """Whatever the cluster has."""
    why = of([node_view()], GVISOR, runtime_classes={"oci": ""})["gvisor"]
    assert why == "the pod template names no RuntimeClass for it"


def able(name: str, **features: bool | None) -> Any:
    """Return a node whose handlers, `` and `own`, have these features."""
    node = node_view(name)
    node.status.runtime_handlers = [
        RuntimeHandler(name=handler, features=features or None) for handler in ("", "own")
    ]
    return node


@pytest.mark.parametrize(
    ("nodes", "template", "have"),
    [
        ([], {}, False),
        ([node_view("n1")], {}, False),  # an older one says nothing
        ([able("n1")], {}, False),
        ([able("n1", userNamespaces=True)], {}, True),
        ([able("n1", userNamespaces=True), able("n2", userNamespaces=False)], {}, False),
        ([able("n1", userNamespaces=True)], {"user_namespaces": False}, False),
        ([able("n1", userNamespaces=False)], {"user_namespaces": True}, True),
        ([able("n1", userNamespaces=True)], {"node_selector": {"sandboxes": "yes"}}, False),
        ([able("n1", userNamespaces=True)], {"runtime_classes": {"oci": "own"}}, True),
        ([able("n1", userNamespaces=True)], {"runtime_classes": {"oci": "other"}}, False),
    ],
)
def test_pods_have_user_namespaces_where_every_node_can(
    nodes: list[Any], template: dict[str, Any], have: bool
) -> None:
    """A pod that asks for one on a node that can't would not start there; a template may know better."""
    changed = msgspec.structs.replace(TEMPLATE, **template)
    runtimes = {each.metadata.name: each for each in (runtime("own", "own"), runtime("other", "o"))}

    assert has_user_namespaces(changed, nodes, runtimes) is have
