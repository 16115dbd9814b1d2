"""The session protocol, explored exhaustively on the real transitions: nothing breaks, and each rule is needed."""

from __future__ import annotations

import pytest
from tests.model.explore import Outcome, explore
from tests.model.rules import Rules, Scenario
from tests.model.scenarios import MUTANTS, QUICK, REDUNDANT, REDUNDANT_SLOW, SLOW, Mutant

from shared import limits

pytestmark = pytest.mark.timeout(240)  # seconds each, on a machine that does nothing else
LONG = [pytest.mark.slow, pytest.mark.pure, pytest.mark.timeout(900)]


class Explorer:
    """Explores with as many deaths to poison as the scenario says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Use `monkeypatch` for the limit."""
        self._monkeypatch = monkeypatch

    def explore(self, scenario: Scenario, rules: Rules | None = None) -> Outcome:
        """Visit every state."""
        if scenario.deaths_max is not None:
            self._monkeypatch.setattr(limits, "DEATHS_MAX", scenario.deaths_max)
        return explore(scenario, rules)


@pytest.fixture
def explorer(monkeypatch: pytest.MonkeyPatch) -> Explorer:
    """Explores scenarios."""
    return Explorer(monkeypatch)


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=LONG) for name in SLOW)])
def test_every_property_holds(name: str, explorer: Explorer) -> None:
    """In every state that can be reached, whatever is slow, dies or loses an answer."""
    outcome = explorer.explore({**QUICK, **SLOW}[name])

    assert outcome.broken is None, str(outcome)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_dropped_rule_breaks_a_property(mutant: Mutant, explorer: Explorer) -> None:
    """No rule is there for nothing, and the search finds what its absence does."""
    outcome = explorer.explore(mutant.scenario, mutant.rules)

    assert (outcome.broken or "").startswith(mutant.breaks), str(outcome)


@pytest.mark.parametrize(
    "mutant",
    [*REDUNDANT, *(pytest.param(mutant, marks=LONG) for mutant in REDUNDANT_SLOW)],
    ids=lambda mutant: mutant.name,
)
def test_a_redundant_rule_is_missed_by_nobody(mutant: Mutant, explorer: Explorer) -> None:
    """Where two rules guard the same thing, one of them is enough; this says which they are."""
    outcome = explorer.explore(mutant.scenario, mutant.rules)

    assert outcome.broken is None, str(outcome)


def test_heartbeats_without_an_epoch_leave_an_unaware_owner(explorer: Explorer) -> None:
    """The trap is named for what it is: the record's owner does not know that it owns."""
    outcome = explorer.explore(QUICK["tiny-lost"], Rules(heartbeats_name_epoch=False))

    assert (outcome.broken or "").endswith("an owner does not know that it owns [P5]")


def test_the_shortest_trace_tells_how_it_broke(explorer: Explorer) -> None:
    """Whoever breaks a rule reads what happens then, step by step."""
    outcome = explorer.explore(QUICK["tiny-crash"], Rules(dead_are_revoked=False))

    assert outcome.trace == (
        "worker 0: pulls plain P0",
        "worker 0: creates the record (running, epoch 1)",
        "CRASH of worker 0 (claimed)",
    )
