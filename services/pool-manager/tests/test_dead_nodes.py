"""When a node that has a volume of its own is proven to be off; what is said, and done, before and after."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pool_manager.core.dead_nodes import (
    IS_OFF,
    OURS,
    OUT_OF_SERVICE,
    SHUT_DOWN,
    Blocked,
    holders,
    judge,
    patch,
)
from shared.kube.views import NodeView

BOOT = "boot-7"
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
SHUT = {"key": SHUT_DOWN, "effect": "NoSchedule"}
OUT = {"key": OUT_OF_SERVICE, "value": OURS, "effect": "NoExecute"}
THEIRS = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}


def node(
    ready: str = "Unknown", *taints: dict[str, str], word: str = "", name: str = "n-1"
) -> NodeView:
    """Return a node as the API server has it."""
    made: dict[str, Any] = {
        "metadata": {
            "name": name,
            "resourceVersion": "9",
            "annotations": {IS_OFF: word} if word else {},
        },
        "spec": {"taints": list(taints)},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "nodeInfo": {"bootID": BOOT},
        },
    }
    return msgspec.convert(made, NodeView)


def judged(found: NodeView, *, heard: bool = False) -> Blocked | None:
    """Return the verdict on a node that was heard once."""
    return judge(found, is_heard=heard, is_silent=not heard)


@pytest.mark.parametrize(
    ("found", "is_proven"),
    [
        (node("Unknown"), False),
        (node("Unknown", UNREACHABLE), False),
        (node("False"), False),
        (node("Unknown", UNREACHABLE, SHUT), True),
        (node("Unknown", word=BOOT), True),
        (node("Unknown", word="boot-6"), False),
        (node("Unknown", word="yes"), False),
        (node("False", SHUT, word=BOOT), False),
    ],
)
def test_silence_is_no_proof_and_the_word_of_a_former_outage_neither(
    found: NodeView, is_proven: bool
) -> None:
    """Only who sees the machine itself proves anything: its cloud, or its operator, of this very boot. And a kubelet that says
    that its node is not ready runs, whatever was said of the machine before it started again."""
    blocked = judged(found)
    assert blocked is not None
    assert blocked.act == ("out" if is_proven else None)


def test_without_a_proof_the_node_and_the_command_that_would_be_one_are_named() -> None:
    """So that nobody waits without knowing for what."""
    blocked = judged(node("Unknown", UNREACHABLE))
    assert blocked is not None
    assert "n-1" in blocked.why
    assert f"kubectl annotate node n-1 {IS_OFF}={BOOT}" in blocked.why


@pytest.mark.parametrize("ready", ["Unknown", "False", "True"])
def test_a_node_that_is_heard_is_never_taken_out_of_service(ready: str) -> None:
    """Whatever anybody says of it."""
    blocked = judged(node(ready, SHUT, word=BOOT), heard=True)
    assert blocked is None or blocked.act == "back"


def test_a_node_that_kubernetes_takes_for_ready_is_not_taken_out_of_service() -> None:
    """It is silent to us alone: that may be ours. It is said, and waited for."""
    blocked = judged(node("True"))
    assert blocked is not None
    assert (blocked.act, "has not noticed" in blocked.why) == (None, True)
    assert judge(node("True"), is_heard=False, is_silent=False) is None


def test_the_word_of_whoever_is_sooner_than_kubernetes_stays() -> None:
    """A script that powers nodes off says so at once; Kubernetes takes the node for ready for some 47 s more."""
    blocked = judged(node("True", word=BOOT))
    assert blocked is not None
    assert (blocked.act, "has not noticed" in blocked.why) == (None, True)


@pytest.mark.parametrize("found", [node("True", OUT), node("True", word="boot-6")])
def test_a_node_that_is_ready_again_is_back_although_nothing_on_it_was_heard(
    found: NodeView,
) -> None:
    """We mark none that is ready, and the word of a former boot is that of a former outage."""
    blocked = judged(found)
    assert blocked is not None
    assert blocked.act == "back"


@pytest.mark.parametrize("taint", [OUT, THEIRS])
def test_a_node_that_is_out_of_service_is_waited_for(taint: dict[str, str]) -> None:
    """Whoever has set it."""
    blocked = judged(node("Unknown", UNREACHABLE, taint, word=BOOT))
    assert blocked is not None
    assert (blocked.act, "out of service" in blocked.why) == (None, True)


def test_a_node_that_is_back_is_taken_into_service_and_the_word_with_it() -> None:
    """The taint of somebody else stays: it is theirs to take back."""
    back = judged(node("True", OUT, word=BOOT), heard=True)
    assert back is not None
    assert back.act == "back"
    assert judged(node("True", THEIRS), heard=True) is None
    assert [one["op"] for one in patch(node("True", SHUT, OUT, word=BOOT), "back")] == [
        "test",
        "remove",
        "remove",
    ]
    assert patch(node("True", SHUT, OUT), "back")[1]["path"] == "/spec/taints/1"
    assert [one["path"] for one in patch(node("True", THEIRS, word=BOOT), "back")[1:]] == [
        "/metadata/annotations/agent-sandbox.dev~1is-off"
    ]


def test_a_change_holds_for_the_state_that_was_judged() -> None:
    """A node that came back meanwhile has another version: nothing is done to it."""
    first, add = patch(node("Unknown", UNREACHABLE), "out")
    assert first == {"op": "test", "path": "/metadata/resourceVersion", "value": "9"}
    assert add == {"op": "add", "path": "/spec/taints/-", "value": OUT}
    assert patch(node("Unknown"), "out")[1]["value"] == [OUT]


def test_a_node_that_is_gone_from_the_books_is_named_as_well() -> None:
    """Nothing can be done to it; living ones hold nothing up."""
    nodes = {"n-2": node("True", name="n-2"), "n-1": node("Unknown")}
    found = holders(nodes, ["n-1", "n-2", "n-9", ""], {"n-2"}, {"n-1"})
    assert [one.node for one in found] == ["n-1", "n-9"]
    assert "none of the cluster" in found[1].why
