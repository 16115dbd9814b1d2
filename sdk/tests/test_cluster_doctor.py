"""`k8s doctor` on clusters as they can be: facts in, verdicts out. tests/kubernetes looks at a real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from agent_sandbox.checkup.verdict import Check
from agent_sandbox.cli.root import root
from agent_sandbox.kubernetes.facts import (
    Claim,
    Facts,
    Node,
    Runtime,
    denies_all,
    node_of,
    runtime_of,
)
from agent_sandbox.kubernetes.judge import ClusterReport, judge
from agent_sandbox.kubernetes.names import namespaces
from agent_sandbox.kubernetes.rights import Right, needed, review_of
from shared.kubectl import Problem, Version
from shared.views import PoolsAnswer, PoolView

SPACES = namespaces()
LEVELS = {"agent-sandbox": "restricted", "agent-sandbox-nodes": "privileged"}
LEVELS["agent-sandbox-pods"] = "restricted"
NODES = tuple(Node(name=f"n{number}", ready=True, labels={"gvisor": "yes"}) for number in range(3))
POOLS = PoolsAnswer(pools=(PoolView(pool="default", stock=4, warm=4, isolation="gvisor"),))
DISK = Claim(name="agent-sandbox-pods/workspaces-a", phase="Bound", on_one_node=True)
WELL = Facts(
    spaces=SPACES,
    context="here",
    version=Version(1, 34),
    levels=LEVELS,
    nodes=NODES,
    runtimes=(Runtime(name="gvisor", handler="runsc", selector={"gvisor": "yes"}),),
    storage={"disk": True},
    claims=(
        Claim(
            name="agent-sandbox/data-nats-0", phase="Bound", storage_class="disk", on_one_node=True
        ),
    ),
    problems=(),
    servers={"nats-0": "", "nats-1": "", "nats-2": ""},
    denying=tuple(SPACES),
    refused={"system:serviceaccount:agent-sandbox:pool-manager": ()},
    pools=POOLS,
)
BARE = Facts(
    spaces=SPACES,
    context="here",
    version=Version(1, 34),
    levels={},
    nodes=NODES,
    runtimes=(),
    storage={"disk": True},
    claims=(),
    may_not_install=(),
)


def changed(facts: Facts, **changes: Any) -> Facts:
    """Return the facts with some of them changed."""
    return msgspec.structs.replace(facts, **changes)


def check(report: ClusterReport, name: str) -> Check:
    """Return one check."""
    return next(each for each in report.checks if each.name == name)


def test_a_system_that_is_well_has_nothing_to_do() -> None:
    """Every check is there, each with what was found."""
    report = judge(WELL)

    assert report.verdict == "ok", report
    assert [each.name for each in report.checks] == [
        "cluster", "namespaces", "rights of services", "nodes", "isolation", "storage", "network policies", "services",
        "nats", "pools",
    ]  # fmt: skip
    assert check(report, "isolation").details == {
        "oci": "", "gvisor": "", "kata": "no RuntimeClass kata",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "name", "verdict", "told"),
    [
        ({"version": Version(1, 28)}, "cluster", "fail", "1.29"),
        ({"levels": {**LEVELS, "agent-sandbox-pods": ""}}, "namespaces", "warn", "kubectl label"),
        ({"nodes": (*NODES, Node(name="n9", ready=False))}, "nodes", "warn", "n9"),
        ({"nodes": (*NODES, Node(name="n9", ready=True, out_of_service=True))}, "nodes", "warn", "taint node n9"),
        ({"nodes": NODES[:2]}, "nodes", "warn", "majority"),
        ({"nodes": ()}, "nodes", "fail", "0 of 0"),
        ({"runtimes": ()}, "isolation", "fail", "pool default: no RuntimeClass gvisor"),
        ({"nodes": (Node(name="n", ready=True),) * 3}, "isolation", "fail", "label node NAME gvisor=yes"),
        ({"claims": (Claim(name="a/b", phase="Pending"),)}, "storage", "fail", "describe pvc"),
        ({"claims": (DISK,), "may_mark_nodes": False}, "disks", "warn", "deploy/out-of-service"),
        ({"claims": (DISK,), "errors": {"may_mark_nodes": "x"}}, "disks", "warn", "not seen: x"),
        ({"denying": SPACES[:2]}, "network policies", "fail", "agent-sandbox-pods"),
        ({"problems": (Problem("DaemonSet a/b", "0 of 3"),)}, "services", "fail", "DaemonSet a/b"),
        ({"servers": {"nats-0": "", "nats-1": "", "nats-2": "x"}}, "nats", "warn", "2 of 3"),
        ({"servers": {"nats-0": "", "nats-1": ""}}, "nats", "warn", "2 of 3"),
        ({"servers": {"nats-0": "", "nats-1": "x", "nats-2": "x"}}, "nats", "fail", "majority"),
        ({"refused": {"a": ("create pods in b",)}}, "rights of services", "fail", "1 may do less"),
        ({"pools": None, "errors": {"pools": "silence"}}, "pools", "fail", "silence"),
        ({"pools": PoolsAnswer()}, "pools", "fail", "there is none"),
        ({"nodes": None, "errors": {"nodes": "forbidden"}}, "nodes", "warn", "not seen: forbidden"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_what_to_do(
    changes: dict[str, Any], name: str, verdict: str, told: str
) -> None:
    """One fact after another; the worst check is the report's verdict."""
    report = judge(changed(WELL, **changes))

    found = check(report, name)
    assert (found.verdict, report.verdict) == (verdict, verdict)
    assert found.do
    assert told in f"{found.found} {found.do}"


def test_a_disk_of_a_pool_is_well_where_a_dead_node_can_be_made_to_let_go_of_it() -> None:
    """The servers' own disks are theirs: nothing is said of them."""
    report = judge(changed(WELL, claims=(*(WELL.claims or ()), DISK), may_mark_nodes=True))

    assert (report.verdict, check(report, "disks").verdict) == ("ok", "ok")
    assert "disks" not in [each.name for each in judge(WELL).checks]


def test_a_pool_that_is_not_full_is_told_with_the_pool_managers_reason() -> None:
    """It may be short of room, and tasks still run."""
    short = PoolsAnswer(pools=(PoolView(pool="big", stock=9, reason="quota: no room"),))

    found = check(judge(changed(WELL, pools=short)), "pools")

    assert (found.verdict, found.do) == ("warn", "big: quota: no room")


def test_where_only_oci_is_there_gvisor_is_recommended() -> None:
    """No pool promises more, so tasks run."""
    pools = PoolsAnswer(pools=(PoolView(pool="default", stock=4, isolation="oci"),))

    found = check(judge(changed(WELL, runtimes=(), pools=pools)), "isolation")

    assert found.verdict == "warn"
    assert "gvisor.dev" in found.do


def test_a_cluster_without_the_system_is_judged_for_its_setting_up() -> None:
    """What would fail then is told now, and what can't be there yet is not."""
    report = judge(BARE)

    assert [each.name for each in report.checks if each.verdict == "fail"] == ["namespaces"]
    assert "kubectl apply -k" in check(report, "namespaces").do
    assert check(report, "your rights").verdict == "ok"
    assert {"services", "nats", "pools"}.isdisjoint(each.name for each in report.checks)

    refused = judge(changed(BARE, may_not_install=("create namespaces",), storage={"disk": False}))
    assert check(refused, "your rights").verdict == "fail"
    assert check(refused, "storage").verdict == "fail"


def test_a_cluster_that_can_not_be_reached_is_told_and_nothing_else(tmp_path: Path) -> None:
    """Through the command itself, in its documented shape; exit code 1."""
    config = tmp_path / "config"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "contexts": [{"name": "gone", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    words = ["k8s", "doctor", "--context", "gone", "--json"]

    done = CliRunner(env={"KUBECONFIG": str(config)}).invoke(root, words)

    report = msgspec.json.decode(done.stdout, type=ClusterReport)
    assert done.exit_code == 1
    assert [(each.name, each.verdict) for each in report.checks] == [("cluster", "fail")]


def test_a_review_asks_for_exactly_one_right() -> None:
    """With its subresource and namespace, or for a path."""
    assert review_of(Right("create", "pods/exec", namespace="a")) == {
        "resourceAttributes": {
            "verb": "create", "resource": "pods", "subresource": "exec", "namespace": "a",
        }
    }  # fmt: skip
    assert review_of(Right("get", "/openid/v1/jwks")) == {
        "nonResourceAttributes": {"path": "/openid/v1/jwks", "verb": "get"}
    }
    assert str(Right("list", "nodes")) == "list nodes"


def test_workers_and_checkpointers_need_no_right_at_all() -> None:
    """The account of untrusted code's pods, and that of what reaches into nodes."""
    assert {account.name for account in needed(SPACES)} == {"pool-manager", "provisioner"}


def test_what_matters_of_objects_is_read() -> None:
    """As the API server writes them."""
    conditions = [{"type": "Ready", "status": "True"}]
    node = {"metadata": {"name": "n"}, "spec": {}, "status": {"conditions": conditions}}
    assert node_of(node).ready
    assert not node_of({**node, "spec": {"unschedulable": True}}).ready
    assert not node_of({**node, "status": {"conditions": []}}).ready
    runtime = {
        "metadata": {"name": "r"},
        "handler": "h",
        "scheduling": {"nodeSelector": {"a": "b"}},
    }
    assert runtime_of(runtime) == Runtime(name="r", handler="h", selector={"a": "b"})
    policy = {"spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}
    assert denies_all(policy)
    assert not denies_all({"spec": {**policy["spec"], "policyTypes": ["Ingress"]}})
    assert not denies_all({"spec": {**policy["spec"], "egress": [{}]}})
    assert not denies_all({"spec": {**policy["spec"], "podSelector": {"matchLabels": {"a": "b"}}}})
