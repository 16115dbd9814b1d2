"""What a run does and when, as data: the headline experiment, its short form, and one fault alone."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from chaos.core.people import HABITS, Habit

Do = Literal["phase", "inject", "heal", "burst", "calm"]
On = Literal["embedded", "kubernetes"]
NODES_KILLED = "nodes-killed"
LEADER_KILLED = "queue-leader-killed"
DOUBLE = "double-fault"
MANAGER_KILLED = "pool-manager-killed"
CHECKPOINTER_KILLED = "checkpointer-killed"


class Event(msgspec.Struct, frozen=True):
    """One moment of the schedule."""

    at_s: float
    do: Do
    what: str = ""
    """`phase`, `inject`: its name; `heal`: the fault to heal, empty: all; `burst`: nothing."""
    factor: float = 1.0
    """`burst`: the load is so many times what it was."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment."""

    name: str
    on: On = "embedded"
    sessions: int
    nodes: int = 10
    ramp_s: float
    load_s: float
    """The load stops then."""
    drain_s: float = 120.0
    """Longest wait for what is under way, and then again for the strong reads."""
    one_shots_per_s: float = 8.0
    stock: int
    """Workers that wait: what the faults take at once, and some."""
    habits: tuple[Habit, ...] = HABITS
    schedule: tuple[Event, ...] = ()
    idle_release_s: float = 600.0

    def faults(self) -> list[str]:
        """Return the faults that it does, in order."""
        return [event.what for event in self.schedule if event.do == "inject"]

    def baseline_until_s(self) -> float:
        """Return when the first fault comes."""
        return min((e.at_s for e in self.schedule if e.do == "inject"), default=self.load_s)


HEADLINE = Scenario(
    name="headline",
    sessions=300,
    ramp_s=100.0,
    load_s=960.0,
    stock=120,
    schedule=(
        Event(120, "phase", "baseline"),
        Event(300, "phase", "30 % of nodes killed"),
        Event(300, "inject", NODES_KILLED),
        Event(480, "phase", "queue leader killed"),
        Event(480, "inject", LEADER_KILLED),
        Event(600, "phase", "dead nodes and server return"),
        Event(600, "heal"),
        Event(720, "phase", "double fault"),
        Event(720, "inject", DOUBLE),
        Event(780, "heal"),
        Event(840, "phase", "burst, manager and checkpointer killed"),
        Event(840, "burst", factor=3.0),
        Event(845, "inject", MANAGER_KILLED),
        Event(850, "inject", CHECKPOINTER_KILLED),
        Event(870, "calm"),
        Event(880, "heal"),
    ),
)
SHORT = Scenario(
    name="headline-short",
    sessions=60,
    ramp_s=12.0,
    load_s=85.0,
    drain_s=150.0,
    one_shots_per_s=8.0,
    stock=28,
    habits=tuple(replace(habit, think_s=habit.think_s / 4) for habit in HABITS),
    schedule=(
        Event(16, "phase", "baseline"),
        Event(30, "phase", "30 % of nodes killed"),
        Event(30, "inject", NODES_KILLED),
        Event(52, "phase", "queue leader killed"),
        Event(52, "inject", LEADER_KILLED),
        Event(70, "phase", "dead nodes and server return"),
        Event(70, "heal"),
    ),
)
KUBERNETES = Scenario(
    name="headline-kubernetes",
    on="kubernetes",
    sessions=60,
    nodes=4,
    ramp_s=60.0,
    load_s=560.0,
    drain_s=180.0,
    one_shots_per_s=0.5,
    stock=24,
    habits=SHORT.habits,
    schedule=(
        Event(70, "phase", "baseline"),
        Event(130, "phase", "30 % of nodes killed"),
        Event(130, "inject", NODES_KILLED),
        Event(210, "phase", "dead nodes return"),
        Event(210, "heal"),
        Event(270, "phase", "queue leader's node killed"),
        Event(270, "inject", LEADER_KILLED),
        Event(330, "phase", "it returns"),
        Event(330, "heal"),
        Event(390, "phase", "double fault"),
        Event(390, "inject", DOUBLE),
        Event(450, "phase", "it returns"),
        Event(450, "heal"),
        Event(490, "phase", "burst, manager and checkpointer killed"),
        Event(490, "burst", factor=3.0),
        Event(495, "inject", MANAGER_KILLED),
        Event(500, "inject", CHECKPOINTER_KILLED),
        Event(520, "calm"),
        Event(530, "heal"),
    ),
)
"""A node of four is a quarter of a cluster: each comes back before the next one dies, and a pod of Kubernetes is too dear
for eight one-shots a second."""
ALONE_AT_S, ALONE_AFTER_S = 40.0, 45.0
"""A fault alone: when it comes, and how long the load goes on after it was healed."""
ALONE = "fault-"
"""Of the names of such runs."""
STOCK_MIN = 8
QUIET_DRAIN_S = 45.0
"""Nothing is to be made up for where nothing was broken."""


def alone(fault: str, lasts_s: float, like: Scenario = SHORT) -> Scenario:
    """Return the experiment that does one fault and nothing else.

    Args:
        fault: its name.
        lasts_s: how long it stays before it is healed, seconds.
        like: whose load it has.
    """
    heal_s = ALONE_AT_S + lasts_s
    return replace(
        like,
        name=f"{ALONE}{fault}",
        ramp_s=SHORT.ramp_s,
        load_s=heal_s + ALONE_AFTER_S,
        schedule=(
            Event(20, "phase", "baseline"),
            Event(ALONE_AT_S, "phase", fault),
            Event(ALONE_AT_S, "inject", fault),
            Event(heal_s, "phase", "healed"),
            Event(heal_s, "heal"),
        ),
    )


def quiet(seconds: float, like: Scenario = SHORT) -> Scenario:
    """Return a run without any fault, with another's load: whoever is fenced in it was fenced falsely."""
    return replace(like, name="quiet", load_s=seconds, drain_s=QUIET_DRAIN_S, schedule=())


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """Another size of a run; None: as the scenario has it."""

    sessions: int | None = None
    nodes: int | None = None
    stock: int | None = None
    """Workers that wait; by default in proportion to the sessions."""
    one_shots_per_s: float | None = None
    drain_s: float | None = None


def fitted(scenario: Scenario, size: Size) -> Scenario:
    """Return a scenario in another size."""
    sessions = size.sessions or scenario.sessions
    stock = scenario.stock
    if sessions != scenario.sessions:
        stock = max(STOCK_MIN, round(stock * sessions / scenario.sessions))
    return replace(
        scenario,
        sessions=sessions,
        nodes=size.nodes or scenario.nodes,
        stock=stock if size.stock is None else size.stock,
        one_shots_per_s=size.one_shots_per_s or scenario.one_shots_per_s,
        drain_s=scenario.drain_s if size.drain_s is None else size.drain_s,
    )
