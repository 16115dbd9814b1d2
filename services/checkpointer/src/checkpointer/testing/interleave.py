"""Runs coroutines of real code one port call at a time, in every order, or in a random one.

Each call of a fake port first gives up its turn, then acts at once: whatever others do in between is what could happen in
between. A run is told by the order of turns alone, so that another order is another run of the same code.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterator
from types import coroutine
from typing import Any, Protocol

from shared.errors import ServiceError


@coroutine
def turn() -> Generator[None, None, None]:
    """Let others go first."""
    yield


class World(Protocol):
    """What the coroutines share."""

    def key(self) -> Hashable:
        """Return what distinguishes this state from others."""
        ...

    def broken(self) -> str | None:
        """Return what must never be, where it is so."""
        ...


class Seen:
    """What one coroutine has been answered so far: two runs in which that is the same go on alike."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.hash = 0

    def note(self, answer: Hashable) -> None:
        """Take in an answer."""
        self.hash = hash((self.hash, answer))


Actor = Callable[[Any, Seen], Coroutine[Any, Any, None]]
"""Makes a coroutine that acts on a world."""


class Run:
    """One run of some actors in one world."""

    def __init__(self, world: World, actors: list[Actor]) -> None:
        """Begin; nobody has had a turn."""
        self.world = world
        self._seen = [Seen() for _ in actors]
        self._turns = [0 for _ in actors]
        self._coroutines: list[Coroutine[Any, Any, None] | None] = [
            actor(world, seen) for actor, seen in zip(actors, self._seen, strict=True)
        ]

    def ready(self) -> list[int]:
        """Return who can have the next turn."""
        return [at for at, one in enumerate(self._coroutines) if one is not None]

    def step(self, at: int) -> None:
        """Give somebody a turn; an error of ours ends him, as it would end his job."""
        one = self._coroutines[at]
        assert one is not None
        self._turns[at] += 1
        try:
            one.send(None)
        except StopIteration:
            self._coroutines[at] = None
        except ServiceError as exc:
            self._seen[at].note(exc.code)
            self._coroutines[at] = None

    def key(self) -> Hashable:
        """Return what distinguishes this state of the run from others."""
        heard = tuple(seen.hash for seen in self._seen)
        return self.world.key(), tuple(self._turns), heard

    def close(self) -> None:
        """End who has not come to an end."""
        for one in self._coroutines:
            if one is not None:
                one.close()


class Found(AssertionError):
    """Something that must never be, and the order of turns that leads there."""


def explore(
    make: Callable[[], Run], *, at_end: Callable[[Any], str | None] = lambda _: None
) -> int:
    """Run in every order; return how many states there are.

    Args:
        make: begins a run anew.
        at_end: says what is wrong with a world in which all have come to their end.

    Raises:
        Found: the first order in which something is wrong.
    """
    seen: set[Hashable] = set()
    left: list[tuple[int, ...]] = [()]
    while left:
        order = left.pop()
        run = make()
        for at in order:
            run.step(at)
        try:
            for more in _go_on(run, order, seen, at_end):
                left.append(more)
        finally:
            run.close()
    return len(seen)


def _go_on(
    run: Run, order: tuple[int, ...], seen: set[Hashable], at_end: Callable[[Any], str | None]
) -> Iterator[tuple[int, ...]]:
    """Go on as far as there is something new; yield the orders that were not taken."""
    while True:
        wrong = run.world.broken()
        ready = run.ready()
        if wrong is None and not ready:
            wrong = at_end(run.world)
        if wrong is not None:
            raise Found(f"{wrong}; turns: {order}")
        key = run.key()
        if key in seen or not ready:
            seen.add(key)
            return
        seen.add(key)
        for other in ready[1:]:
            yield (*order, other)
        order = (*order, ready[0])
        run.step(ready[0])


def wander(run: Run, seed: int, *, at_end: Callable[[Any], str | None] = lambda _: None) -> None:
    """Run in one random order, now and then with somebody who gets no turn for long.

    Raises:
        Found: something is wrong.
    """
    chance = random.Random(seed)
    order: list[int] = []
    asleep: set[int] = set()
    try:
        while ready := run.ready():
            if chance.random() < 0.1:
                asleep = {at for at in ready if chance.random() < 0.4}
            at = chance.choice([one for one in ready if one not in asleep] or ready)
            order.append(at)
            run.step(at)
            if (wrong := run.world.broken()) is not None:
                raise Found(f"{wrong}; seed {seed}, turns: {order}")
        if (wrong := at_end(run.world)) is not None:
            raise Found(f"{wrong}; seed {seed}, turns: {order}")
    finally:
        run.close()
