"""Which faults are driven: every kind at every step, and pairs of them. Pure."""

from __future__ import annotations

import random

import msgspec

from shared.failpoints.steps import BY_NAME, STEPS, Kind, Step

CRASHES = ("crash_before", "crash_after")


class Fault(msgspec.Struct, frozen=True):
    """A kind of fault at a step."""

    step: str
    kind: Kind

    def __str__(self) -> str:
        """Return it as it is written: `step:kind`."""
        return f"{self.step}:{self.kind}"

    @property
    def kills_manager(self) -> bool:
        """Whether a pool-manager dies of it."""
        return self.kind in CRASHES and BY_NAME[self.step].service == "pool_manager"

    @property
    def kills_checkpointer(self) -> bool:
        """Whether the node's checkpointer dies of it."""
        return self.kind in CRASHES and BY_NAME[self.step].service == "checkpointer"

    @property
    def kills_client(self) -> bool:
        """Whether the client dies of it."""
        return self.kind in CRASHES and BY_NAME[self.step].service == "client"


class Scenario(msgspec.Struct, frozen=True):
    """A story, and the faults that strike in it."""

    story: str
    faults: tuple[Fault, ...]
    """Those that are looked at: each must strike."""
    leading: tuple[Fault, ...] = ()
    """Those that lead to them."""

    @property
    def name(self) -> str:
        """Return it in one line."""
        return " + ".join(map(str, self.faults)) + (
            "" if self.story == "plain" else f" [{self.story}]"
        )

    @property
    def all_faults(self) -> tuple[Fault, ...]:
        """Return all that are placed."""
        return tuple(dict.fromkeys((*self.leading, *self.faults)))

    @property
    def kills_managers(self) -> bool:
        """Whether a pool-manager dies in it."""
        return self.story in ("restart", "deaf") or any(
            fault.kills_manager for fault in self.all_faults
        )

    @property
    def kills_checkpointer(self) -> bool:
        """Whether the node's checkpointer dies in it: all sessions of the node wait for it then."""
        return any(fault.kills_checkpointer for fault in self.all_faults)

    @property
    def kills_client(self) -> bool:
        """Whether the client dies in it."""
        return any(fault.kills_client for fault in self.all_faults)


def parse_fault(text: str) -> Fault:
    """Read a fault as it is written.

    Raises:
        ValueError: there is no such step, or that can't happen there.
    """
    name, _, kind = text.partition(":")
    if name not in BY_NAME or kind not in BY_NAME[name].kinds:
        raise ValueError(f"no such fault: {text!r}")
    return Fault(name, next(one for one in BY_NAME[name].kinds if one == kind))


def leading_to(step: Step) -> tuple[Fault, ...]:
    """Return the faults that lead to a step."""
    return tuple(map(parse_fault, step.after))


def singles() -> list[Scenario]:
    """Return every kind of fault at every step, in each story that comes by there."""
    return [
        Scenario(story, (Fault(step.name, kind),), leading_to(step))
        for step in STEPS
        for story in step.story.split()
        for kind in step.kinds
    ]


def some_of_each_step(seed: int) -> list[Scenario]:
    """Return one kind of fault for every step and story, drawn by a seed: of all that have both, every other one a crash."""
    dice = random.Random(seed)
    found, crash = [], dice.random() < 1 / 2
    for step in STEPS:
        crashes = [kind for kind in step.kinds if kind in CRASHES]
        others = [kind for kind in step.kinds if kind not in CRASHES]
        for story in step.story.split():
            kinds = (crashes if crash else others) or step.kinds
            found.append(Scenario(story, (Fault(step.name, dice.choice(kinds)),), leading_to(step)))
            crash = not crash
    return found


def pairs() -> list[Scenario]:
    """Return all pairs of faults at two steps that one story comes by."""
    found = []
    faults = [(step, kind) for step in STEPS for kind in step.kinds]
    for at, (first, one) in enumerate(faults):
        for second, other in faults[at + 1 :]:
            story = _common_story(first, second)
            if story is not None and first.name != second.name:
                leading = (*leading_to(first), *leading_to(second))
                both = (Fault(first.name, one), Fault(second.name, other))
                found.append(Scenario(story, both, leading))
    return found


def _common_story(first: Step, second: Step) -> str | None:
    """Return a story that comes by both; most others come by what the plain one does at the beginning, too."""
    common = set(first.story.split()) & set(second.story.split())
    return min(common) if common else None


def sample(scenarios: list[Scenario], count: int, seed: int) -> list[Scenario]:
    """Return so many of them, drawn by a seed."""
    return random.Random(seed).sample(scenarios, min(count, len(scenarios)))
