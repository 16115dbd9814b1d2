"""Plans of faults, and the marks that they fired: files in a folder that all processes of one machine share."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from shared.failpoints.steps import BY_NAME, Kind


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One fault to happen once."""

    name: str
    """Of its files."""
    step: str
    kind: Kind
    nth: int = 1
    """At which coming by, counted over all processes; at the next one if another plan strikes there."""
    about: tuple[str, ...] = ()
    """The call must be about one of these: sessions, pools; empty: any call."""

    def fits(self, words: frozenset[str]) -> bool:
        """Return whether a call about these words is meant. A pod is called after its pool."""
        return not self.about or any(
            word == one or word.startswith(f"{one}-") for one in self.about for word in words
        )


class Mark(msgspec.Struct, frozen=True):
    """That a fault fired: where and when."""

    pid: int
    at_s: float
    """Wall clock, seconds since 1970."""


class PlanFolder:
    """The folder."""

    def __init__(self, path: Path) -> None:
        """Use the folder at `path`; `make` makes it."""
        self._plans = path / "plans"
        self._marks = path / "marks"
        self._read: dict[str, Plan] = {}

    def make(self) -> None:
        """Make it."""
        for path in (self._plans, self._marks):
            path.mkdir(parents=True, exist_ok=True)

    def place(self, plan: Plan) -> None:
        """Let a fault happen from now on.

        Raises:
            KeyError: there is no such step.
            ValueError: that can't happen there.
        """
        if plan.kind not in BY_NAME[plan.step].kinds:
            raise ValueError(f"{plan.kind} can't happen at {plan.step}")
        hidden = self._plans / f".{plan.name}"
        hidden.write_bytes(msgspec.json.encode(plan))
        hidden.rename(self._plans / plan.name)

    def remove(self, name: str) -> None:
        """Let it not happen any more."""
        (self._plans / name).unlink(missing_ok=True)

    def fired(self, name: str) -> Mark | None:
        """Return the mark of a fault that has happened."""
        try:
            return msgspec.json.decode((self._marks / f"{name}.fired").read_bytes(), type=Mark)
        except FileNotFoundError:
            return None

    def came_by(self, name: str) -> int:
        """Return how often processes came by the step of a plan."""
        try:
            return (self._marks / f"{name}.came").stat().st_size
        except FileNotFoundError:
            return 0

    def hit(self, steps: frozenset[str], words: frozenset[str]) -> Plan | None:
        """Come by these steps with a call about these words; return the fault that is to happen now, once."""
        fitting = [plan for plan in self._current() if plan.step in steps and plan.fits(words)]
        due = [plan for plan in fitting if self._count(plan.name) >= plan.nth]  # all of them count
        # One at a time: what another one was in the way of strikes at the next coming by.
        return next((plan for plan in due if self._mark(plan.name)), None)

    def _current(self) -> list[Plan]:
        found: dict[str, Plan] = {}
        for path in self._plans.iterdir():
            name = path.name
            if name.startswith("."):
                continue
            known = self._read.get(name)
            try:
                found[name] = known or msgspec.json.decode(path.read_bytes(), type=Plan)
            except FileNotFoundError:  # removed just now
                continue
        self._read = found
        return list(found.values())

    def _count(self, name: str) -> int:
        """Count this coming by; what each process writes is appended, so each finds its own place in the line."""
        descriptor = os.open(
            self._marks / f"{name}.came",
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
            0o600,
        )
        try:
            os.write(descriptor, b".")
            return os.lseek(descriptor, 0, os.SEEK_CUR)
        finally:
            os.close(descriptor)

    def _mark(self, name: str) -> bool:
        """Mark that a fault happens now; False: it has happened, here or in another process."""
        mark = self._marks / f"{name}.fired"
        if mark.exists():
            return False
        hidden = self._marks / f".{name}.{os.getpid()}"
        hidden.write_bytes(msgspec.json.encode(Mark(os.getpid(), time.time())))
        try:
            mark.hardlink_to(hidden)
        except FileExistsError:
            return False
        finally:
            hidden.unlink()
        return True
