"""The pure decisions: which class, how limits are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_node.core.isolation import choose
from local_node.core.limits import bounds
from shared.errors import Rejected
from shared.pools import ISOLATION_CLASSES, PodLimits

LIMITS = PodLimits(memory_mib=256, pids=64, cpu=0.5, disk_mib=100)
reasons = st.sampled_from(["", "not here"])
machines = st.fixed_dictionaries(dict.fromkeys(ISOLATION_CLASSES, reasons))


@given(available=machines, asked=st.sampled_from(ISOLATION_CLASSES))
def test_a_named_class_is_given_or_refused(available: dict[str, str], asked: str) -> None:
    """Never another one, weaker or stronger."""
    if available[asked]:
        with pytest.raises(Rejected, match="not here"):
            choose(asked, available)
    else:
        assert choose(asked, available) == asked


@given(available=machines)
def test_auto_is_the_strongest_that_isolates(available: dict[str, str]) -> None:
    """Nothing stronger is there; without any, it is refused rather than run unconfined."""
    there = [name for name in ISOLATION_CLASSES if not available[name] and name != "process"]
    if there:
        assert choose("auto", available) == there[-1]
    else:
        with pytest.raises(Rejected, match="no class that isolates"):
            choose("auto", available)


def test_an_unknown_class_is_refused() -> None:
    """By a machine that has everything, too, and by a node that never heard of a known one."""
    with pytest.raises(Rejected, match="unknown class"):
        choose("jail", dict.fromkeys(ISOLATION_CLASSES, ""))
    with pytest.raises(Rejected, match="unknown to this node"):
        choose("kata", {})


controllers = st.sets(st.sampled_from(["memory", "pids", "cpu"]))


@given(has=controllers, user_processes=st.none() | st.integers(0, 500))
def test_every_limit_is_enforced_or_watched(has: set[str], user_processes: int | None) -> None:
    """Memory, processes and disk: each by exactly one of both."""
    kept = bounds(LIMITS, has, user_processes)

    assert {*kept.enforced, *kept.watched} >= {"memory", "pids", "disk"}
    assert not set(kept.enforced) & set(kept.watched)


def test_groups_enforce_what_they_control() -> None:
    """No rlimit on memory then: it would count reserved address space against the task."""
    kept = bounds(LIMITS, {"memory", "pids", "cpu"}, None)

    assert set(kept.enforced) == {"memory", "pids", "cpu"}
    assert kept.watched == ("disk",)
    assert "data" not in kept.rlimits
    assert kept.niceness == 0
    assert kept.rlimits["fsize"] == 100 << 20


def test_rlimits_stand_in_for_groups() -> None:
    """Processes are counted exactly for a user of its own; memory for each process; the sum is watched."""
    kept = bounds(LIMITS, set(), None)

    assert kept.rlimits["nproc"] == 64
    assert kept.rlimits["data"] == 256 << 20
    assert kept.enforced == ("pids",)
    assert kept.watched == ("memory", "disk")
    assert kept.niceness > 0


def test_a_shared_user_only_bounds_a_fork_bomb() -> None:
    """The kernel counts all that the user has: the limit must leave room for other pods, so the sidecar counts too."""
    kept = bounds(LIMITS, set(), 300)

    assert kept.rlimits["nproc"] > 300 + 64
    assert kept.watched == ("memory", "pids", "disk")
