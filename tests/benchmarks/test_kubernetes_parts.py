"""From rounds of faults to figures and pictures, without a cluster."""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ET

from harness import pictures
from harness.api import of_pool, writes_table
from harness.report import Report
from harness.site import table_of
from kubernetes_parts import figures, volume_figures
from kubernetes_parts.lanes import Lane, Lanes
from kubernetes_parts.remounts import Remount
from kubernetes_parts.rounds import Round
from recovery_parts.tracker import Hit, Tracker

from shared.pools import Hours, PodLimits, PoolSpec, Promise, Volume, parse_pools
from shared.recovery import Recovery
from shared.testing.audit import Request
from shared.testing.history import Verdict


def hit(detect_s: float, recover_s: float | None, *, task: str | None = "t") -> Hit:
    """Return a session that a fault at 100 s hit."""
    found = Hit("poweroff", ("a", "s"), 1, 100.0, task, 100.0 + detect_s)
    found.recovered_s = None if recover_s is None else 100.0 + recover_s
    return found


def report(rounds: int = 5) -> Report:
    """Return an empty report of a run of so many rounds."""
    given = argparse.Namespace(rounds=rounds)
    return Report("kubernetes-recovery", "c", {}, figures.targets(given))


ROUNDS = [
    Round("poweroff", "n1", 100.0, [hit(4.0, 6.0), hit(4.2, 30.0, task=None)], 47.0),
    Round("poweroff", "n2", 100.0, [hit(3.0, 9.0)], 49.0),
    Round("cut", "n3", 100.0, [hit(5.0, 20.0)], None),
]


def test_figures_without_a_name_are_of_nodes_that_are_gone() -> None:
    """A cut node's have their own; who was idle when hit says when it was given up, not when it went on."""
    found = report()

    figures.add_rounds(found, ROUNDS)

    told = found.figures
    assert (told["rounds"], told["rounds_cut"], told["rounds_hang"]) == (2, 1, 0)
    assert (told["detect_p95_s"], told["recover_p50_s"], told["recover_max_s"]) == (4.2, 6.0, 9.0)
    assert (told["detect_p95_s_cut"], told["recover_max_s_cut"]) == (5.0, 20.0)
    assert told["kubernetes_not_ready_s"] == 47.0
    assert (told["hits"], told["hits_in_task"], told["not_recovered"]) == (4, 3, 0)
    assert {target.figure for target in found.missed()} == {"rounds"}


def test_a_session_that_does_not_go_on_is_missed() -> None:
    """Though it was given up in time. One that ended meanwhile is not."""
    found = report(1)
    ended = hit(4.0, None)
    ended.ended = True

    figures.add_rounds(found, [Round("poweroff", "n1", 100.0, [hit(4.0, None), ended])])

    assert found.figures["not_recovered"] == 1
    assert "not_recovered" in {target.figure for target in found.missed()}


def test_what_the_checker_finds_is_told_in_the_words_of_the_figures() -> None:
    """Workspaces of which their users were told that they are lost are lost."""
    found, tracker = report(), Tracker(losses=2)
    verdict = Verdict(
        accepted=9, finished=8, lost=1, doubled=1, disordered=1, stale=3, failed=1, quarantined=1
    )

    figures.add_verdict(found, verdict, tracker, ["full: no room"])

    told = found.figures
    assert (told["lost"], told["doubled"], told["zombie"], told["user_errors"]) == (3, 2, 3, 3)
    assert "full: no room" in found.notes


def test_work_that_is_done_again_is_as_users_were_told() -> None:
    """Nothing where nobody was told."""
    found = report()
    figures.add_rolled_back(found, [])
    assert "rolled_back_max_s" not in found.figures

    told = [Recovery(cause="c", rule="rerun", work_lost_s=lost) for lost in (0.5, 2.0)]
    figures.add_rolled_back(found, told)

    assert (found.figures["rolled_back_p50_s"], found.figures["rolled_back_max_s"]) == (0.5, 2.0)


def test_each_round_is_drawn_with_a_lane_for_each_session() -> None:
    """A picture of its own beside the distribution of all."""
    drawn = pictures.draw(figures.pictures(ROUNDS))

    assert ET.fromstring(drawn).attrib["width"] == "880"
    assert drawn.count('stroke="#c33" stroke-width') == 4
    assert "Kubernetes noticed after 47 s" in drawn
    assert "Kubernetes noticed not while it lasted" in drawn
    assert Lanes("t", [Lane(None, None, True)], None).height > 0


def test_pools_are_declared_without_what_is_by_default() -> None:
    """The services may be older than this tree, and not know a field that it has."""
    pools = (
        PoolSpec(name="a", stock=9, isolation="oci", limits=PodLimits(memory_mib=99)),
        PoolSpec(name="b"),
    )

    text = "".join(map(table_of, pools))

    assert parse_pools(text) == pools
    assert "pods_max" not in text


def test_what_others_promise_and_mount_is_declared_again_as_it_is() -> None:
    """A run rewrites the declaration of all pools: those of others must come out of it whole."""
    hours = Hours(days=("mon", "tue"), begin="07:30", end="09:00", stock_min=20)
    pools = (
        PoolSpec(name="a", promise=Promise(cold_share=0.01, stock_min=2, hours=(hours,))),
        PoolSpec(name="b", promise=Promise(idle_cost_per_hour=0.1, cold_cost=2.0)),
        PoolSpec(name="c", isolation="gvisor", workspace="pvc", volume=Volume(size_gib=3)),
        PoolSpec(name="d", isolation="kata", workspace="pvc", volume=Volume()),
        PoolSpec(name="e", exclude=("*.pyc", "a,b"), limits=PodLimits(cpu=0.5, pids=99)),
    )

    assert parse_pools("".join(map(table_of, pools))) == pools


def test_writes_are_counted_by_who_and_what() -> None:
    """Nodes count as one; accounts by their names."""
    one = Request(1.0, "system:node:n1", "patch", "", "pods/status", "p", "a", 200)
    two = one._replace(user="system:node:n2")
    three = one._replace(
        user="system:serviceaccount:s:pool-manager", verb="create", resource="pods"
    )

    told = writes_table("t", [one, two, three], 2)

    assert "node patch pods/status" in told
    assert [line.split()[-2:] for line in told.splitlines()[3:]] == [["2", "1.00"], ["1", "0.50"]]
    assert writes_table("t", [], 2) == "t: none"


def test_writes_about_other_pools_pods_are_not_counted() -> None:
    """A write that names no object counts: it may be a pod of this pool."""
    one = Request(1.0, "u", "create", "", "pods", "pods", "warm-0-1", 201)
    others = [one._replace(name="warmer-0-1"), one._replace(name="default-0-1")]
    kept = [one, one._replace(name=""), one._replace(namespace="system", name="x")]

    assert of_pool([*kept, *others], "pods", "warm") == kept


def test_only_pods_taken_by_hand_make_the_figure_without_a_name() -> None:
    """Where nothing is waited for. Harm counts whatever took the pod; what was not measured has no target."""
    given = argparse.Namespace(deletes=1, nows=2, kills=1, poweroffs=0, cuts=1)
    found = Report("kubernetes-pvc", "c", {}, volume_figures.targets(given))
    rounds = [
        Remount("delete", 30.0, 29.0, 0, 0),
        Remount("now", 1.0, 0.5, 0, 0),
        Remount("now", 2.0, None, 0, 0),
        Remount("kill", 7.0, 0.1, 0, 0, differences=["d0/f0.bin: other bytes"]),
        Remount("cut", 11.0, 4.0, 0, 3, status="ok"),
    ]

    volume_figures.enter(found, rounds)

    told = found.figures
    assert (told["pvc_remount_p50_s"], told["pvc_remount_p95_s"]) == (2.0, 7.0)
    assert (told["pvc_remount_p95_s_now"], told["pvc_remount_p95_s_cut"]) == (2.0, 11.0)
    assert (told["pvc_zombie_writes"], told["pvc_files_differ"], told["pvc_not_told"]) == (3, 1, 1)
    assert {target.figure for target in found.missed()} == {
        "pvc_zombie_writes", "pvc_files_differ", "pvc_not_told",
    }  # fmt: skip
    assert found.unmeasured() == []
    drawn = pictures.draw(volume_figures.pictures(rounds))
    assert ET.fromstring(drawn).attrib["width"] == "880"
