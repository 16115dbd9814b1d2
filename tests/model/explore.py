"""Breadth-first search over all states of a scenario, and the properties of the graph that it finds."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable

import msgspec
from tests.model import cancels, managers, surroundings, workers
from tests.model.records import WORKERS, Book
from tests.model.rules import Broken, Rules, Scenario
from tests.model.state import ABSENT, GONE, WARM, State, initial
from tests.model.turn import Step, Turn

STATES_MAX = 2_500_000


class Outcome(msgspec.Struct, kw_only=True):
    """What an exploration found."""

    states: int
    edges: int
    broken: str | None = None
    """The first property found broken, by a shortest trace."""
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Tell the story of what broke."""
        lines = [
            f"{self.broken or 'all properties hold'} ({self.states} states, {self.edges} edges)"
        ]
        lines += [f"  {number:2}. {label}" for number, label in enumerate(self.trace, start=1)]
        return "\n".join(lines)


class Graph:
    """The states reached so far, each with the step that first led to it and its fair successors."""

    def __init__(self, first: State) -> None:
        """Begin at `first`."""
        self.numbers = {first: 0}
        self.states = [first]
        self.came_by: list[tuple[int, str]] = [(-1, "")]
        self.fair: list[list[int]] = []
        self.edges = 0

    def add(self, state: State, origin: int, label: str) -> int:
        """Return the state's number."""
        number = self.numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
            self.came_by.append((origin, label))
        return number

    def trace(self, number: int) -> tuple[str, ...]:
        """Return the labels of a shortest way to a state."""
        labels = []
        while number > 0:
            number, label = self.came_by[number]
            labels.append(label)
        return tuple(reversed(labels))

    def leads_to(self, goal: Iterable[int]) -> bytearray:
        """Return, by number, whether fair steps can lead from a state to one of `goal`."""
        backwards: list[list[int]] = [[] for _ in self.states]
        for number, successors in enumerate(self.fair):
            for successor in successors:
                backwards[successor].append(number)
        leads = bytearray(len(self.states))
        todo = deque(goal)
        for number in todo:
            leads[number] = 1
        while todo:
            for number in backwards[todo.popleft()]:
                if not leads[number]:
                    leads[number] = 1
                    todo.append(number)
        return leads


def steps_from(state: State, scenario: Scenario, rules: Rules, book: Book) -> list[Step]:
    """Return everything that may happen next."""
    turn = Turn(state, scenario, rules, book)
    surroundings.steps(turn)
    workers.steps(turn)
    managers.steps(turn)
    cancels.steps(turn)
    return turn.steps


def explore(scenario: Scenario, rules: Rules | None = None) -> Outcome:
    """Visit every reachable state; stop at the first that breaks a property."""
    gc.disable()  # states hold no cycles, and there are many
    try:
        return _explore(scenario, rules or Rules())
    finally:
        gc.enable()


def _explore(scenario: Scenario, rules: Rules) -> Outcome:
    book = Book(rules, scenario)
    graph = Graph(initial(scenario))
    for number, state in enumerate(graph.states):  # the list grows meanwhile
        fair = []
        for label, is_fair, after in steps_from(state, scenario, rules, book):
            graph.edges += 1
            if isinstance(after, Broken):
                trace = (*graph.trace(number), label)
                return _outcome(graph, broken=str(after), trace=trace)
            successor = graph.add(after, number, label)
            if is_fair and successor != number:
                fair.append(successor)
        graph.fair.append(fair)
        if len(graph.states) > STATES_MAX:
            return _outcome(graph, broken=f"more than {STATES_MAX} states")
    return _trapped(graph, "P1 an accepted task can no longer reach a result", _all_done) or (
        _trapped(graph, "P7 the results are there, but rest is never reached", _at_rest)
        or _outcome(graph)
    )


def _outcome(graph: Graph, *, broken: str | None = None, trace: tuple[str, ...] = ()) -> Outcome:
    return Outcome(states=len(graph.states), edges=graph.edges, broken=broken, trace=trace)


def _trapped(graph: Graph, name: str, goal: Callable[[State], bool]) -> Outcome | None:
    """Return the nearest state from which `goal` is out of reach, if there is one."""
    leads = graph.leads_to(number for number, state in enumerate(graph.states) if goal(state))
    if all(leads):
        return None
    trap = leads.index(0)
    if any(not leads[n] and _unaware(state) for n, state in enumerate(graph.states)):
        name += "; an owner does not know that it owns [P5]"
    return _outcome(graph, broken=name, trace=graph.trace(trap))


def _all_done(state: State) -> bool:
    return None not in state.results[: state.accepted + 1]


def _at_rest(state: State) -> bool:
    """Nobody owns, no message is left, nothing runs."""
    truth = state.truth
    return (
        _all_done(state)
        and truth is not None
        and truth.state not in ("queued", "running", "rescuing")
        and state.workers == (WARM, WARM)
        and state.late is None
        and state.tokens == (ABSENT, ABSENT)
        and all(where in (ABSENT, GONE) for where, _ in state.copies)
        and state.rescuer is None
        and not (truth.state == "idle" and state.accepted > truth.position)
    )


def _unaware(state: State) -> bool:
    truth = state.truth
    if truth is None or truth.state != "running" or truth.owner not in WORKERS:
        return False
    return state.workers[WORKERS.index(truth.owner)].epoch != truth.epoch
