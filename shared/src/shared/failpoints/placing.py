"""Places faults on the ports that an `app` joins. Without a folder of plans, `at` returns the port itself.

What a caller sees at a fault is what the bus would raise: `OutcomeUnknown` after a write, `Unavailable` after a read.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import msgspec

from shared import logs
from shared.errors import OutcomeUnknown, ServiceError, Unavailable
from shared.failpoints.forms import Step
from shared.failpoints.plans import Plan, PlanFolder
from shared.failpoints.steps import BY_NAME, PLACES

log = logs.get(__name__)

LATE_S = 0.4
"""So much later comes what is late and still in time."""
BEHIND_S = 1.5
"""A late effect happens after the caller's next look, at the latest so long after it gave up."""
REDELIVERED_S = 2.5
"""A pull's late answer comes when the message has been delivered again."""
YIELDS = {"worker.wait_for_bell.pull": "claim"}
"""Answers whose own methods are steps, of that place."""
T = TypeVar("T")
Call = Callable[[], Awaitable[Any]]


class Failpoints:
    """The failpoints of one process."""

    def __init__(self, folder: str | None, service: str, *words: str) -> None:
        """Take plans from `folder`; None: there are none, ever.

        Args:
            folder: of a `PlanFolder`.
            service: whose steps these are.
            words: what every call here is about (a worker's pool).
        """
        self.plans = PlanFolder(Path(folder)) if folder else None
        self._service = service
        self._words = words

    def at(self, place: str, port: T) -> T:
        """Return a port as the loop `place` is to see it.

        Raises:
            KeyError: there is no such place.
        """
        where = f"{self._service}.{place}"
        if where not in PLACES:
            raise KeyError(f"no place {where}")
        if self.plans is None:
            return port
        return cast("T", _Placed(self, where, port))

    def hit(self, steps: tuple[Step, ...], arguments: tuple[Any, ...]) -> Plan | None:
        """Come by; return the fault that is to happen now."""
        words = frozenset((*self._words, *(word for one in arguments for word in _words(one))))
        names = frozenset(step.name for step in steps if not step.only or step.only in words)
        assert self.plans is not None, "nothing is placed without plans"
        plan = self.plans.hit(names, words) if names else None
        if plan is not None:
            log.warning("fault.fired", step=plan.step, kind=plan.kind, plan=plan.name)
        return plan

    def yielded(self, steps: tuple[Step, ...], answer: T) -> T:
        """Return an answer with the failpoints of its own methods."""
        place = YIELDS.get(steps[0].name)
        return answer if place is None or answer is None else self.at(place, answer)


def _words(argument: Any) -> list[str]:
    """Return what an argument is about: names in a struct, the tokens of a subject or a key, a string itself."""
    if isinstance(argument, str):
        return [argument, *re.split(r"[./]", argument)]
    names = ("session", "tenant", "pool", "state", "pod", "worker")
    found = (getattr(argument, name, None) for name in names)
    return [word for word in found if isinstance(word, str)]


class _Placed:
    """Stands for a port; calls that are steps may meet a fault."""

    def __init__(self, faults: Failpoints, place: str, port: Any) -> None:
        self._faults = faults
        self._port = port
        self._steps: dict[str, tuple[Step, ...]] = {}
        for step in BY_NAME.values():
            if step.name.startswith(f"{place}."):
                self._steps[step.method] = (*self._steps.get(step.method, ()), step)
        self._behind: list[Call] = []
        self._later: set[asyncio.Task[None]] = set()

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._port, name)
        steps = self._steps.get(name)
        if steps is None:
            return inner
        if steps[0].form == "scan":
            return lambda *args: self._scan(steps, lambda: inner(*args), args)
        if steps[0].form == "note":
            return lambda *args: self._note(steps, lambda: inner(*args), args)

        async def call(*args: Any, **kwargs: Any) -> Any:
            plan = self._faults.hit(steps, args)

            def ask() -> Awaitable[Any]:
                return cast("Awaitable[Any]", inner(*args, **kwargs))

            try:
                answer = await (ask() if plan is None else self._meet(plan, ask))
            finally:
                if plan is None or plan.kind != "effect_late":
                    await self._land()
            return self._faults.yielded(steps, answer)

        return call

    async def _meet(self, plan: Plan, ask: Call) -> Any:
        """Let the fault happen."""
        step, kind = BY_NAME[plan.step], plan.kind
        if kind == "crash_before":
            die()
        if kind == "crash_after":
            await _quietly(ask)
            die()
        if kind == "request_late":
            await asyncio.sleep(LATE_S)
            return await ask()
        if kind in ("answer_lost", "answer_late"):
            return await self._answer(step, ask, late=kind == "answer_late")
        if kind == "effect_late":
            self._behind.append(ask)
            task = asyncio.create_task(self._land_later(step), name="late-effect")
            self._later.add(task)
            task.add_done_callback(self._later.discard)
        return await self._unanswered(step)

    async def _unanswered(self, step: Step) -> None:
        """Nobody answers. What was only said is lost without a sign."""
        match step.form:
            case "write":
                await asyncio.sleep(step.wait_s)
                raise OutcomeUnknown(f"no answer (placed at {step.name})")
            case "join":
                raise Unavailable(f"not taken (placed at {step.name})")

    async def _answer(self, step: Step, ask: Call, *, late: bool) -> Any:
        """Do it; the answer is lost, or late."""
        match step.form:
            case "write":
                await _quietly(ask)
                await asyncio.sleep(step.wait_s if late else 0)
                raise OutcomeUnknown(f"no answer (placed at {step.name})")
            case "read":
                answer = await ask()
                if not late:
                    raise Unavailable(f"no answer (placed at {step.name})")
                await asyncio.sleep(LATE_S)
                return answer
            case "pull":
                answer = await ask()
                if not late:
                    return None
                await asyncio.sleep(REDELIVERED_S)
                return answer
            case _:
                answer = await ask()
                if late:
                    await asyncio.sleep(LATE_S)
                    return answer
                self._port.kill()
                await self._port.wait_lost()
                return msgspec.structs.replace(answer, lost=True)

    async def _scan(
        self, steps: tuple[Step, ...], scan: Callable[[], AsyncIterator[T]], args: tuple[Any, ...]
    ) -> AsyncIterator[T]:
        plan = self._faults.hit(steps, args)
        if plan is not None and plan.kind == "crash_before":
            die()
        async for one in scan():
            yield one
        if plan is not None and plan.kind == "crash_after":
            die()
        if plan is not None:
            raise Unavailable(f"no answer (placed at {plan.step})")

    def _note(self, steps: tuple[Step, ...], note: Callable[[], T], args: tuple[Any, ...]) -> T:
        plan = self._faults.hit(steps, args)
        if plan is not None and plan.kind == "crash_before":
            die()
        noted = note()
        if plan is not None:
            die()
        return noted

    async def _land(self) -> None:
        """Let late effects happen: the caller has looked, and has not yet acted on what it saw."""
        behind, self._behind = self._behind, []
        for ask in behind:
            await _quietly(ask)

    async def _land_later(self, step: Step) -> None:
        await asyncio.sleep(BEHIND_S + (step.wait_s if step.form == "write" else 0))
        await self._land()


async def _quietly(ask: Call) -> None:
    """Do it; nobody hears how it went."""
    try:
        await ask()
    except ServiceError as exc:
        log.info("fault.effect_failed", error=exc.code)


def die() -> NoReturn:
    """End this process as a kill does."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("killed")
