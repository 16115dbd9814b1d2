"""The load, as seeded pure generators: who does what, and after which thinking. The same dice, the same load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from chaos.core.dice import Dice

DECIMALS = 3


class Habit(msgspec.Struct, frozen=True, kw_only=True):
    """How a kind of user works."""

    kind: str
    share: float
    """Of all sessions; habits' shares add up to 1."""
    klass: str = "interactive"
    think_s: float = 30.0
    """Mean of the exponential pause before a turn."""
    steps: tuple[int, int] = (4, 4)
    pause_s: tuple[float, float] = (0.2, 1.0)
    """Bounds of a step's stubbed model time."""


CHAT = Habit(kind="chat", share=0.7)
BATCH = Habit(kind="batch", share=0.2, klass="batch")
LONG = Habit(kind="long", share=0.1, think_s=15.0, steps=(8, 16), pause_s=(0.6, 1.2))
HABITS = (CHAT, BATCH, LONG)


class Person(msgspec.Struct, frozen=True):
    """One session's user."""

    number: int
    habit: Habit
    via: str
    """`nats` or `http`."""


class Turn(msgspec.Struct, frozen=True):
    """What a user does next."""

    number: int
    token: str
    think_s: float
    pauses: tuple[float, ...]
    """One for each step, seconds."""


def people(dice: Dice, count: int, habits: Sequence[Habit] = HABITS) -> list[Person]:
    """Return the users: habits by their shares, half of each kind through the gateway, in a drawn order."""
    wanted: list[Habit] = []
    for habit in habits:
        wanted += [habit] * round(habit.share * count)
    wanted = (wanted + [habits[0]] * count)[:count]
    order = dice.sample(range(count), count)
    seats = [(wanted[index], "http" if index % 2 else "nats") for index in range(count)]
    return [Person(number, *seats[seat]) for number, seat in enumerate(order)]


def turns(dice: Dice, person: Person) -> Iterator[Turn]:
    """Yield a user's turns, for ever. The first makes the session."""
    habit, number = person.habit, 0
    while True:
        steps = habit.steps[0] + dice.randrange(habit.steps[1] - habit.steps[0] + 1)
        yield Turn(
            number,
            f"{person.number}-{number}",
            round(dice.expovariate(1 / habit.think_s), DECIMALS),
            tuple(round(dice.uniform(*habit.pause_s), DECIMALS) for _ in range(steps)),
        )
        number += 1


def gaps(dice: Dice, rate: float) -> Iterator[float]:
    """Yield the pauses between one-shots, seconds: half fixed, half drawn, so that no two clients march in step."""
    while True:
        yield round((0.5 + dice.random()) / rate, DECIMALS)


def ramp(count: int, seconds: float) -> list[float]:
    """Return when each user comes, seconds from the beginning."""
    return [seconds * number / max(1, count) for number in range(count)]
