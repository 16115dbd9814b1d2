"""Faults of a system on Kubernetes: whom they hit, how nodes are failed, and that all of it is taken back."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from random import Random

import msgspec
import pytest

from chaos.adapters.kubernetes import run_command
from chaos.core.criteria import CRITERIA, KUBERNETES_CRITERIA
from chaos.core.driver import Templates, words_of
from chaos.core.report.data import Target, conclude
from chaos.core.rows import Header
from chaos.core.scenario import KUBERNETES, Scenario
from chaos.nemesis import FAULTS
from chaos.nemesis.kubernetes import KUBE_FAULTS
from chaos.options import parse, scenario_of
from chaos.ports.faults import NoVictim
from chaos.ports.kube_site import KubeNode
from chaos.testing.made import Made
from shared.errors import Unavailable
from shared.testing.node_faults import FAULTS_VARIABLE

SERVERS = {"n1": ("nats-0",), "n2": ("nats-1",), "n3": ("nats-2",), "n4": ()}


class Site:
    """Four nodes, three of them with a server; what is done to them is noted."""

    fails_nodes = True

    def __init__(self, leader: str = "nats-1") -> None:
        self.leader = leader
        self.done: list[tuple[str, str]] = []

    def now(self) -> float:
        """No time passes."""
        return 1.0

    async def nodes(self) -> list[KubeNode]:
        """All but those that are down."""
        down = {node for verb, node in self.done if verb == "down"}
        return [
            KubeNode(name=name, token=name, workers=5, servers=servers)
            for name, servers in SERVERS.items()
            if name not in down
        ]

    async def leaders(self, *streams: str) -> dict[str, str]:
        """One server leads them all."""
        return dict.fromkeys(streams, self.leader)

    async def down(self, node: str) -> None:
        """Note it."""
        self.done.append(("down", node))

    async def up(self, node: str) -> None:
        """Note it."""
        self.done.append(("up", node))

    async def end_pods(self, selector: str) -> list[str]:
        """Note it."""
        self.done.append(("end", selector))
        return [selector.partition("=")[2]]


async def test_each_fault_hits_what_it_says_and_is_taken_back() -> None:
    """The node without a server first: two servers of three must live; the leader's node for the leader."""
    for name, done, targets in (
        ("nodes-killed", [("down", "n4"), ("up", "n4")], ("n4",)),
        ("queue-leader-killed", [("down", "n2"), ("up", "n2")], ("n2", "nats-1")),
        (
            "double-fault",
            [("down", "n4"), ("end", "statefulset.kubernetes.io/pod-name=nats-1"), ("up", "n4")],
            ("n4", "nats-1"),
        ),
        (
            "pool-manager-killed",
            [("end", "app.kubernetes.io/name=pool-manager")],
            ("pool-manager",),
        ),
        (
            "checkpointer-killed",
            [("end", "app.kubernetes.io/name=checkpointer")],
            ("checkpointer",),
        ),
    ):
        site = Site()
        fault = KUBE_FAULTS[name](site, Random(1))

        injected = await fault.inject()
        await fault.heal()
        await fault.heal()

        assert (site.done, injected.targets) == (done, targets)
        assert injected.fault == name
        assert await fault.missed() == ""


async def test_of_a_node_with_two_servers_the_leaders_pod_alone_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the node both would die, and the third alone decides nothing."""
    monkeypatch.setitem(SERVERS, "n2", ("nats-1", "nats-2"))
    monkeypatch.setitem(SERVERS, "n3", ())
    site = Site()

    done = await KUBE_FAULTS["queue-leader-killed"](site, Random(1)).inject()

    assert site.done == [("end", "statefulset.kubernetes.io/pod-name=nats-1")]
    assert "2 servers" in done.detail


async def test_without_a_leader_or_a_second_node_there_is_no_victim() -> None:
    """And nothing is done."""
    site = Site(leader="nats-7")
    with pytest.raises(NoVictim):
        await KUBE_FAULTS["queue-leader-killed"](site, Random(1)).inject()
    site.done += [("down", node) for node in ("n1", "n2", "n3")]
    with pytest.raises(NoVictim):
        await KUBE_FAULTS["nodes-killed"](site, Random(1)).inject()
    assert all(verb == "down" for verb, _ in site.done[:3])
    assert len(site.done) == 3


def test_the_faults_on_kubernetes_are_of_the_headline_and_have_their_bounds() -> None:
    """Under the same names as on an embedded cluster, so that figures and criteria are the same."""
    assert set(KUBERNETES.faults()) == set(KUBE_FAULTS) <= set(FAULTS)
    made = Made()
    made.turn()
    made.rows[0] = type(made.rows[0])(
        time=0, run=KUBERNETES.name, seed=1, commit="c", began_ms=0, settings={}
    )

    targets = conclude(made.close()).targets

    assert (targets["sessions"].reach, targets["detect_p95_s"].reach) == (60, 4.5)


def test_a_fault_alone_has_the_bounds_of_nodes_that_vanish_there() -> None:
    """As the headline has there: without a word of its end a node is given up after seconds, not at once."""
    for on, detect_s, recover_s, gap_s in (
        ("kubernetes", 4.5, 7.0, 2.0),
        ("embedded", 1.0, 3.5, 1.0),
    ):
        words = ["--on", on]
        killed, led, managers = (
            targets_of(scenario_of(parse(["run", fault, *words])))
            for fault in ("nodes-killed", "queue-leader-killed", "pool-manager-killed")
        )

        assert (killed["detect_p95_s"].reach, killed["recover_p50_s"].reach) == (
            detect_s,
            recover_s,
        )
        assert led["queue_gap_s"].reach == gap_s
        pause_s = 3 if on == "kubernetes" else 0
        assert (
            managers["start_gap_s"].reach
            == CRITERIA["pool-manager-killed"].most["start_gap_s"] + pause_s
        )
    for name in KUBE_FAULTS:
        assert KUBERNETES_CRITERIA[name].most.keys() == CRITERIA[name].most.keys()


def targets_of(scenario: Scenario) -> dict[str, Target]:
    """Return what a run of it must reach."""
    made = Made()
    made.turn()
    made.rows[0] = Header(
        time=0,
        run=scenario.name,
        seed=1,
        commit="c",
        began_ms=0,
        settings=msgspec.to_builtins(scenario),
    )
    return conclude(made.close()).targets


def test_a_nodes_command_is_a_template_of_words_without_a_shell(tmp_path: Path) -> None:
    """What it needs stands in quotes; a name never becomes more than a part of a word."""
    assert words_of("docker kill '{node}'", "a b;c") == ["docker", "kill", "a b;c"]
    assert Templates(down="docker kill {node}", up="docker start {node}").problem() == ""
    assert "names no" in Templates(down="docker kill", up="up {node}").problem()
    assert "up" in Templates(down="down {node}", up="'{node}").problem()

    made = tmp_path / "n1"
    code = shlex.quote(f"open({str(tmp_path / '{node}')!r}, 'w')")
    run_command(f"{sys.executable} -c {code}", "n1")
    assert made.exists()
    with pytest.raises(Unavailable, match="exit code 3: no such node"):
        run_command("sh -c 'echo no such node >&2; exit 3' {node}", "n1")
    with pytest.raises(Unavailable, match="no-such-program"):
        run_command("no-such-program {node}", "n1")


def test_the_command_line_takes_templates_and_refuses_what_kubernetes_has_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the machine's own program for faults is named, it is used."""
    monkeypatch.delenv(FAULTS_VARIABLE, raising=False)
    words = ["run", "headline", "--on", "kubernetes", "--sessions", "90"]
    scenario = scenario_of(parse(words))
    assert (scenario.name, scenario.sessions, scenario.stock) == ("headline-kubernetes", 90, 36)

    for wrong in (
        ["run", "power-loss", "--on", "kubernetes"],
        [*words, "--node-down", "kill {node}"],
        [*words, "--node-down", "kill", "--node-up", "start {node}"],
    ):
        with pytest.raises(SystemExit):
            parse(wrong)
    assert "--node-up" in capsys.readouterr().err
    monkeypatch.setenv(FAULTS_VARIABLE, "devcluster")
    assert parse(words).on == "kubernetes"
