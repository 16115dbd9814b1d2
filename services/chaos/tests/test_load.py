"""The load comes from the seed alone, and has the shape that the experiment asks for."""

from __future__ import annotations

import itertools
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.core.journal import chains, code_of, elements, read_seen, read_step, turn_of, whole
from chaos.core.people import HABITS, gaps, people, turns
from chaos.core.scenario import HEADLINE, SHORT, Size, fitted

SEEDS = st.integers(0, 2**32)


@given(SEEDS, st.integers(1, 400))
@settings(max_examples=50)
def test_the_same_seed_makes_the_same_load(seed: int, count: int) -> None:
    """Users, their turns, the pauses between one-shots."""

    def load() -> object:
        persons = people(random.Random(seed), count)
        first = list(itertools.islice(turns(random.Random(f"{seed}/0"), persons[0]), 20))
        return persons, first, list(itertools.islice(gaps(random.Random(seed), 8), 20))

    assert load() == load()


@given(SEEDS, st.integers(10, 400))
@settings(max_examples=50)
def test_users_are_of_all_kinds_by_their_shares_and_come_both_ways(seed: int, count: int) -> None:
    """Each has a number of its own."""
    persons = people(random.Random(seed), count)

    assert sorted(person.number for person in persons) == list(range(count))
    assert abs(sum(person.via == "http" for person in persons) - count / 2) <= 1
    for habit in HABITS:
        kind = [person for person in persons if person.habit is habit]
        assert abs(len(kind) - habit.share * count) <= 2


@given(SEEDS)
def test_turns_keep_within_their_habit_and_have_tokens_of_their_own(seed: int) -> None:
    """No two users ever append the same token."""
    tokens = set()
    for person in people(random.Random(seed), 20):
        for turn in itertools.islice(turns(random.Random(seed), person), 30):
            low, high = person.habit.steps
            assert low <= len(turn.pauses) <= high
            assert all(
                person.habit.pause_s[0] <= pause <= person.habit.pause_s[1] for pause in turn.pauses
            )
            assert turn.think_s >= 0
            tokens.add(turn.token)
    assert len(tokens) == 20 * 30


def test_the_headline_is_the_experiment_that_was_promised() -> None:
    """300 sessions on ten nodes; its short form does the same two faults with fewer."""
    assert (HEADLINE.sessions, HEADLINE.nodes) == (300, 10)
    assert HEADLINE.faults()[:2] == SHORT.faults()
    assert [(e.at_s, e.do, e.what or e.factor) for e in HEADLINE.schedule if e.do != "phase"] == [
        (300, "inject", "nodes-killed"), (480, "inject", "queue-leader-killed"), (600, "heal", 1.0),
        (720, "inject", "double-fault"), (780, "heal", 1.0), (840, "burst", 3.0),
        (845, "inject", "pool-manager-killed"), (850, "inject", "checkpointer-killed"), (870, "calm", 1.0), (880, "heal", 1.0),
    ]  # fmt: skip
    assert HEADLINE.load_s == 960


def test_another_size_keeps_the_reserve_in_proportion_unless_it_is_said() -> None:
    """So that a small run is the same experiment."""
    small = fitted(HEADLINE, Size(sessions=60))

    assert (small.sessions, small.nodes, small.stock) == (60, HEADLINE.nodes, HEADLINE.stock / 5)
    assert fitted(HEADLINE, Size(stock=0)).stock == 0
    assert fitted(HEADLINE, Size()) == HEADLINE


@given(st.lists(st.text("abc.-0123456789", min_size=1, max_size=8), max_size=30))
def test_a_chain_tells_two_journals_apart(tokens: list[str]) -> None:
    """Each prefix has its own value."""
    values = chains(tokens)

    assert len(values) == len(tokens) + 1
    assert len(set(values)) == len(values)
    assert whole("\n".join(tokens)).chain == values[-1]


def test_the_code_of_a_turn_does_what_its_rows_say(tmp_path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]  # fixtures of pytest
    """Run here, as it runs in a sandbox: it appends, and tells what it reads back."""
    monkeypatch.chdir(tmp_path)
    for token in ("7-0", "7-1"):
        exec(code_of(token, [0.0, 0.0]), {})
    said = capsys.readouterr().out

    journal = elements("7-0", 2) + elements("7-1", 2)
    steps = [step for step in map(read_step, said.splitlines()) if step is not None]
    seen = read_seen(said)
    assert (tmp_path / "journal").read_text().split() == journal
    assert [(step.token, step.step, step.length) for step in steps] == [
        ("7-0", 0, 1), ("7-0", 1, 2), ("7-1", 0, 3), ("7-1", 1, 4),
    ]  # fmt: skip
    assert seen is not None
    assert (seen.length, seen.chain, seen.tokens) == (4, chains(journal)[-1], tuple(journal))
    assert [step.chain for step in steps] == chains(journal)[1:]
    assert turn_of("7-1.0") == "7-1"
