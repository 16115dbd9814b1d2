"""Drives scenarios, several at once in one world: each has a tenant of its own, and a pool for its time."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from agent_sandbox import ClientOptions
from agent_sandbox.places import FAILPOINTS_VARIABLE
from faults_parts.scenarios import Fault, Scenario
from faults_parts.settled import unsettled
from faults_parts.stories import COLD, QUIET_S, STORIES
from faults_parts.teller import PODS_MAX, Cast, Teller
from faults_parts.waiting import STORY_S, connected, wait_for
from faults_parts.world import World
from shared.failpoints import Plan
from shared.failpoints.steps import BY_NAME
from shared.pools import PoolSpec
from shared.testing.history import Place

SETTLE_S = 25.0
"""Longest time from a story's end until nothing is left of it: tokens, pods, an owned session."""
FIRED_WITHIN_S = 12.0
"""After a story's end: the survey of inboxes comes every ten seconds."""
TRIES = 3
"""For a fault to strike."""
KILLING_AT_ONCE = 2
"""Scenarios at once in which a pool-manager dies, and in which the checkpointer does: more would leave none for the others."""
STOCK = 3
WARM_POOL, COLD_POOL = "warm", "cold"
POISONED = "worker.run_task.event"
"""Where the worker of a poisonous task dies."""
DEATHS = 5
"""So often: one that shows as a lost connection first, before its node's word, is not held against the task."""


def pools(lanes: int, scenarios: Iterable[Scenario]) -> tuple[PoolSpec, ...]:
    """Return the pools for these scenarios, so many at once."""
    warm = [
        PoolSpec(
            name=f"{WARM_POOL}{n}",
            stock=STOCK,
            pods_max=PODS_MAX,
            isolation="process",
            idle_release_s=0.3,
        )
        for n in range(lanes)
    ]
    cold = [
        PoolSpec(
            name=f"{COLD_POOL}{n}",
            stock=0,
            pods_max=PODS_MAX,
            isolation="process",
            idle_release_s=0.3,
        )
        for n in range(lanes)
    ]
    return (*warm, *(cold if any(one.story in COLD for one in scenarios) else ()))


@contextmanager
def reaching_clients(faults: Path) -> Iterator[None]:
    """Let the placed faults reach clients: of this process and of those that it starts, as long as this lasts."""
    before = os.environ.get(FAILPOINTS_VARIABLE)
    os.environ[FAILPOINTS_VARIABLE] = str(faults)
    try:
        yield
    finally:
        os.environ.pop(FAILPOINTS_VARIABLE)
        if before is not None:
            os.environ[FAILPOINTS_VARIABLE] = before


class Outcome(msgspec.Struct, kw_only=True):
    """What became of a scenario."""

    scenario: Scenario
    cast: Cast
    wrong: list[str] = []
    """What must not be; empty: all is well."""
    unfired: list[str] = []
    """Faults that did not strike: nothing was shown."""
    story_s: float = 0.0
    gap_s: float = 0.0
    """Longest time without progress (a record or result stored) since the first fault struck, the story's rest left out."""
    settle_s: float = 0.0

    @property
    def verdict(self) -> str:
        """Return it in a word."""
        return "WRONG" if self.wrong else "not fired" if self.unfired else "ok"


class Driver:
    """Drives scenarios in one world."""

    def __init__(self, world: World, lanes: int, say: Callable[[str], None]) -> None:
        """Play so many at once."""
        self._world = world
        self._say = say
        self._free: asyncio.Queue[int] = asyncio.Queue()
        for lane in range(lanes):
            self._free.put_nowait(lane)
        self._killing = asyncio.Semaphore(KILLING_AT_ONCE)
        self._killing_checkpointers = asyncio.Semaphore(KILLING_AT_ONCE)
        self._stored_at: dict[str, list[float]] = defaultdict(list)
        self._number = 0
        self._outcomes: list[Outcome] = []
        world.recorder.hearers.append(self._stored)

    def _stored(self, _at: Place, subject: str, _data: bytes) -> None:
        kind, *names = subject.split(".")
        tenant = names[1] if kind in ("rec", "job", "ws") else names[0]
        self._stored_at[tenant].append(time.time())

    async def play(self, scenarios: Iterable[Scenario]) -> list[Outcome]:
        """Play them all: first those in which no service dies, which are undisturbed by the others.

        One in which a fault did not strike is played again: another's fault may have been in its way.
        """
        chosen = list(scenarios)
        with reaching_clients(self._world.folder / "faults"):
            for killing in (False, True):
                now = [
                    one
                    for one in chosen
                    if (one.kills_managers or one.kills_checkpointer) is killing
                ]
                await asyncio.gather(*map(self._play, now))
        return self._outcomes

    async def _play(self, scenario: Scenario) -> None:
        if not (scenario.kills_managers or scenario.kills_checkpointer):
            await self._play_in_lane(scenario)
            return
        async with self._killing if scenario.kills_managers else self._killing_checkpointers:
            await self._play_in_lane(scenario)

    async def _play_in_lane(self, scenario: Scenario) -> None:
        lane = await self._free.get()
        try:
            for _ in range(TRIES):
                self._number += 1
                outcome = await self._play_as(scenario, f"t{self._number}", lane)
                self._outcomes.append(outcome)
                if outcome.verdict != "not fired":
                    break
        finally:
            self._free.put_nowait(lane)

    async def _play_as(self, scenario: Scenario, tenant: str, lane: int) -> Outcome:
        pool = f"{COLD_POOL if scenario.story in COLD else WARM_POOL}{lane}"
        cast = Cast(tenant=tenant, pool=pool, seed=f"{tenant}/{time.time_ns()}")
        outcome = Outcome(scenario=scenario, cast=cast)
        placed = self._place(scenario, cast)
        began = time.monotonic()
        try:
            async with asyncio.timeout(STORY_S + 15):
                await self._tell(scenario, cast)
        except Exception as exc:  # noqa: BLE001 - whatever goes wrong is what is looked for
            outcome.wrong.append(f"the story ended with {type(exc).__name__}: {exc}")
        outcome.story_s = time.monotonic() - began
        watched = {plan.name for plan in placed if Fault(plan.step, plan.kind) in scenario.faults}
        await wait_for(lambda: all(map(self._world.plans.fired, watched)), within_s=FIRED_WITHIN_S)
        outcome.unfired = [
            f"{plan.step}:{plan.kind} (came by {self._world.plans.came_by(plan.name)} times)"
            for plan in placed
            if plan.name in watched and self._world.plans.fired(plan.name) is None
        ]
        for plan in placed:
            self._world.plans.remove(plan.name)
        began = time.monotonic()
        left = await self._settle(cast)
        outcome.settle_s = time.monotonic() - began
        outcome.wrong += left
        outcome.gap_s = self._longest_gap(scenario.story, cast, placed)
        self._say(
            f"{tenant:>5} {outcome.verdict:9} {outcome.story_s:5.1f} s, longest gap {outcome.gap_s:4.1f} s, "
            f"settled {outcome.settle_s:4.1f} s: {scenario.name}"
            + "".join(f"\n        {text}" for text in (*outcome.wrong, *outcome.unfired))
        )
        return outcome

    def _place(self, scenario: Scenario, cast: Cast) -> list[Plan]:
        """Place the scenario's faults."""
        plans = []
        for number, fault in enumerate(scenario.all_faults):
            about = (cast.tenant, cast.pool, f"_INBOX_c-{cast.tenant}")
            later = fault in scenario.leading and scenario.story in ("later", "resumed")
            if later or scenario.story == "kept":
                about = (cast.id("s"),)
            first = 2 if later else 1  # the first start is the opened session's own
            times = DEATHS if scenario.story == "poison" and fault.step == POISONED else 1
            plans += [
                Plan(
                    name=f"{cast.tenant}-{number}-{nth}",
                    step=fault.step,
                    kind=fault.kind,
                    about=() if BY_NAME[fault.step].wide else about,
                    nth=nth,
                )
                for nth in range(first, first + times)
            ]
        if scenario.story.startswith("race"):
            sign = Plan(
                name=f"{cast.tenant}-sign",
                step="worker.commit.write@idle",
                kind="request_late",
                about=(cast.id("s"),),
            )
            plans.append(sign)
        for plan in plans:
            self._world.plans.place(plan)
        return plans

    async def _tell(self, scenario: Scenario, cast: Cast) -> None:
        if scenario.story in ("restart", "deaf"):
            for manager in self._world.managers[: 1 if scenario.story == "restart" else 2]:
                manager.kill()
        credential = self._world.client_credential(cast.tenant)
        servers = self._world.cluster.urls
        if scenario.kills_client:
            await self._tell_apart(scenario, cast, credential)
            return
        options = ClientOptions(servers=servers, credential=credential, tenant=cast.tenant)
        async with connected(options) as client:
            await STORIES[scenario.story](Teller(client, cast, self._sign_of(cast)))

    def _sign_of(self, cast: Cast) -> Callable[[], int | None]:
        def sign() -> int | None:
            mark = self._world.plans.fired(f"{cast.tenant}-sign")
            return mark.pid if mark else None

        return sign

    async def _tell_apart(self, scenario: Scenario, cast: Cast, credential: Path) -> None:
        """Let a process of its own tell the story, and another one again when it died."""
        told = self._world.folder / f"{cast.tenant}.told"
        order = msgspec.json.encode(
            [scenario.story, cast, str(credential), self._world.cluster.urls, str(told)]
        )
        program = Path(__file__).with_name("client.py")
        for _ in range(4):
            process = await asyncio.create_subprocess_exec(
                sys.executable, str(program), order.decode(), env=dict(os.environ)
            )
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                process.kill()
                raise
            if code == 0:
                cast.expected |= msgspec.json.decode(told.read_bytes(), type=Cast).expected
                return
            if code != -9:
                break
        raise RuntimeError(f"the client ended with {code}")

    async def _settle(self, cast: Cast) -> list[str]:
        """Wait until nothing is left of a story; return what stays."""
        until = time.monotonic() + SETTLE_S
        while True:
            left = await unsettled(self._world, cast)
            if not left or time.monotonic() > until:
                return left
            await asyncio.sleep(0.25)

    def _longest_gap(self, story: str, cast: Cast, placed: list[Plan]) -> float:
        marks = [mark.at_s for plan in placed if (mark := self._world.plans.fired(plan.name))]
        if not marks:
            return 0.0
        times = [min(marks), *(at for at in self._stored_at[cast.tenant] if at > min(marks))]
        longest = max((b - a for a, b in itertools.pairwise(times)), default=0.0)
        return max(0.0, longest - QUIET_S.get(story, 0.0))
