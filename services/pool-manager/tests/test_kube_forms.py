"""Pods of a former form are replaced a few at a time, and never against a pool-manager that still makes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pool_manager.core.kube_cluster import LABELS
from pool_manager.core.kube_forms import form_of, outdated
from pool_manager.core.kube_pods import Pod, read_pod
from pool_manager.core.peers import ManagerBeat, Peers
from pool_manager.core.pod_template import PodTemplate
from pool_manager.core.slots import Slots
from shared.messages import Slot
from shared.pools import PodLimits, PoolSpec
from shared.testing.kube_objects import running

TEMPLATE = PodTemplate(
    namespace="pods", worker_image="w", sandbox_image="s", nats_servers=("nats://n:4222",)
)
NOW = 100.0
FORMS = {"oci": "new"}


def filled(stock: int, manager: str = "former") -> Slots:
    """Return a pool whose pods are warm."""
    slots = Slots(PoolSpec(name="p", stock=stock))
    for index in range(stock):
        slot = Slot(
            pool="p",
            slot=str(index),
            generation=1,
            pod=f"p-{index}-1",
            node="kubernetes",
            manager=manager,
            reserved_ms=1,
        )
        slots.apply(slot, index + 1, fate="warm", now=NOW)
    return slots


def pods(stock: int, **given: Any) -> list[Pod]:
    """Return them as the cluster has them."""
    views = [running(f"p-{i}-1", pool="p", **{"form": "old", **given}) for i in range(stock)]
    return [read_pod(view, LABELS) for view in views]


def names(found: list[Pod]) -> list[str]:
    """Return the names of pods."""
    return [pod.name for pod in found]


def test_one_in_ten_is_replaced_at_a_time() -> None:
    """At least one; those that end already count."""
    peers = Peers("me")
    assert names(outdated(filled(3), pods(3), FORMS, peers, NOW)) == ["p-0-1"]
    assert len(outdated(filled(25), pods(25), FORMS, peers, NOW)) == 3
    ending = pods(3)
    ending[0].is_ending = True
    assert outdated(filled(3), ending, FORMS, peers, NOW) == []


def test_what_has_todays_form_stays() -> None:
    """And what is of a class that has none."""
    peers = Peers("me")
    assert outdated(filled(3), pods(3, form="new"), FORMS, peers, NOW) == []
    assert outdated(filled(3), pods(3), {"gvisor": "new"}, peers, NOW) == []


@pytest.mark.parametrize("phase", ["due", "starting", "taken"])
def test_a_pool_that_is_not_full_replaces_nothing(phase: str) -> None:
    """Nor is a pod replaced that has a session."""
    slots = filled(2)
    if phase == "due":
        slots.want("1", NOW)
    elif phase == "starting":
        slots.count["starting"] = 1
    else:
        slots.taken("p-0-1", NOW)
        slots.taken("p-1-1", NOW)
        slots.due.clear()
    assert outdated(slots, pods(2), FORMS, Peers("me"), NOW) == []


def test_pods_of_a_pool_manager_that_lives_are_left_alone() -> None:
    """While a new form is rolled out two forms are made, and neither side ends the other's."""
    peers = Peers("me")
    assert outdated(filled(2, "me"), pods(2), FORMS, peers, NOW) == []
    peers.heard(ManagerBeat(manager="former"), NOW)
    assert outdated(filled(2), pods(2), FORMS, peers, NOW + 1) == []
    assert len(outdated(filled(2), pods(2), FORMS, peers, NOW + 10)) == 1
    assert outdated(filled(2), pods(2), FORMS, Peers("me", NOW), NOW) == []  # not settled yet


def test_a_form_is_what_pods_have_in_common() -> None:
    """Images, sizes, places; not the pool's stock."""
    pool = PoolSpec(name="p")
    form = form_of(TEMPLATE, pool, "oci")
    assert form == form_of(TEMPLATE, msgspec.structs.replace(pool, stock=9), "oci")
    newer = msgspec.structs.replace(TEMPLATE, sandbox_image="s2")
    smaller = msgspec.structs.replace(pool, limits=PodLimits(memory_mib=64))
    others = {form_of(newer, pool, "oci"), form_of(TEMPLATE, smaller, "oci")}
    others.add(form_of(TEMPLATE, pool, "gvisor"))
    assert len(others | {form}) == 4
