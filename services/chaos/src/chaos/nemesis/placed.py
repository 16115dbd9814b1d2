"""Processes that are killed right at a step of a save or a restore, by the product's own failpoints."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence

from agent_sandbox import Client, ClientOptions, NoResultYet
from agent_sandbox.orders import make_task_id
from agent_sandbox.session import Session
from chaos.core.dice import Dice
from chaos.nemesis.base import Base
from chaos.nemesis.victims import kill_owner, own_pool, owned, revoked
from chaos.ports import Injected, NoVictim, Site
from shared.errors import ServiceError
from shared.failpoints import STEPS, Kind, Plan, PlanFolder

FIRE_S = 50.0
"""Longest wait for all steps to be come by."""
EACH_S = 20.0
SAVERS = 3
SAVED_BYTES = 1_000_000
SAVE_EVERY_S = 0.2
POLL_S = 0.1
SAVE_ACTS = ("save",)
CRASHES: tuple[Kind, ...] = ("crash_before", "crash_after")
RESTORE_STEP = "worker.restore.restore"
TIMES = 2
RESULT_S = 40.0


class _Placed(Base):
    """Places failpoints, and takes back what did not fire."""

    needs = frozenset({"failpoints"})

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._placed: list[str] = []
        self._unfired: list[str] = []

    @property
    def plans(self) -> PlanFolder:
        """Where failpoints are placed."""
        plans = self.ground.plans
        assert plans is not None
        return plans

    def place(self, step: str, kind: Kind, about: Sequence[str] = ()) -> Plan:
        """Let a process die at a step, once."""
        name = f"{step}-{kind}-{secrets.token_hex(3)}".replace("@", "-")
        plan = Plan(name=name, step=step, kind=kind, about=tuple(about))
        self.plans.place(plan)
        self._placed.append(name)
        return plan

    async def fired(self, plan: Plan, within_s: float) -> bool:
        """Wait until it fired, at most `within_s` seconds; after that it does not fire any more."""
        end_s = self.site.now() + within_s
        while True:
            if self.plans.fired(plan.name) is not None:
                return True
            if self.site.now() >= end_s:
                break
            await asyncio.sleep(POLL_S)
        self.plans.remove(plan.name)
        self._unfired.append(f"{plan.kind} at {plan.step}")
        return False

    async def heal(self) -> None:
        """See `Fault`."""
        for name in self._placed:
            self.plans.remove(name)
        await super().heal()

    async def missed(self) -> str:
        """See `Base`."""
        if not self._placed:
            return "nothing was placed"
        return f"not come by: {', '.join(self._unfired)}" if self._unfired else ""


class KilledWhileSaving(_Placed):
    """At each step of a save, before it and after it, whoever does it is killed: worker or checkpointer, one by one.

    Beside the users some sessions of this fault's own save new files, so that each step is come by.
    """

    name = "killed-while-saving"
    lasts_s = 1.0

    async def inject(self) -> Injected:
        """See `Fault`."""
        self.ground  # noqa: B018 - says at once what is lacking
        places = [
            (step.name, kind)
            for step in STEPS
            if step.act in SAVE_ACTS
            for kind in CRASHES
            if kind in step.kinds
        ]
        drawn = self.dice.sample(places, len(places))
        # One worker at a time, so that no task loses three in a row; beside it one checkpointer.
        workers = [place for place in drawn if place[0].startswith("worker.")]
        others = [place for place in drawn if place not in workers]
        at_s = self.site.now()
        async with _savers(self.site):
            hits = await asyncio.gather(*(self._strike(row, at_s) for row in (workers, others)))
        hit = [one for row in hits for one in row]
        if not hit:
            raise NoVictim("nobody saved anything")
        return self.done(sorted(hit), at_s)

    async def _strike(self, places: Sequence[tuple[str, Kind]], began_s: float) -> list[str]:
        """Place one after the other; return where it struck."""
        hit = []
        for step, kind in places:
            left_s = began_s + FIRE_S - self.site.now()
            if await self.fired(self.place(step, kind), min(left_s, EACH_S)):
                hit.append(f"{step}:{kind}")
        return hit


class KilledWhileRestoring(_Placed):
    """A session's worker is killed right after it had the files restored, and the next one as well: the third is not.

    It is a session of this fault's own, with a file of which each byte is known.
    """

    name = "killed-while-restoring"
    lasts_s = 1.0

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._said = "it did not come to the restore"

    async def inject(self) -> Injected:
        """See `Fault`."""
        self.ground  # noqa: B018 - says at once what is lacking
        async with Client(ClientOptions(state=self.site.folder.path)) as client:
            session = await client.create_session(pool=own_pool(self.site.folder))
            try:
                (await session.exec("seq 100000 > known; sha256sum known > sum")).check()
                return await self._restored(session)
            finally:
                await _closed(session)

    async def _restored(self, session: Session) -> Injected:
        task = make_task_id()
        plans = [self.place(RESTORE_STEP, "crash_after", (task,)) for _ in range(TIMES)]
        record = await owned(self.site, session.id)
        at_s = self.site.now()
        await kill_owner(self.site, record)
        # With a task in its inbox that death would be the task's, and three of them make poison.
        await revoked(self.site, session.id, record.epoch)
        running = await session.start("sha256sum -c sum", task_id=task)
        try:
            result = await running.result(wait_s=RESULT_S)
            self._said = "" if result.ok else f"the third ended {result.status}: {result.stdout}"
        except NoResultYet:
            self._said = f"no result within {RESULT_S:g} s"
        took_s = self.site.now() - at_s
        for plan in plans:
            await self.fired(plan, 0)
        return self.done([record.node or ""], at_s, f"whole after {took_s:.1f} s")

    async def failed(self) -> str:
        """See `Base`."""
        return self._said


@contextlib.asynccontextmanager
async def _savers(site: Site) -> AsyncIterator[None]:
    """Have some sessions save new files while inside."""

    async def save(client: Client) -> None:
        session = await client.create_session(pool=own_pool(site.folder))
        try:
            while True:
                with contextlib.suppress(ServiceError, TimeoutError):
                    await session.exec(f"head -c {SAVED_BYTES} /dev/urandom > new", wait_s=RESULT_S)
                await asyncio.sleep(SAVE_EVERY_S)
        finally:
            await _closed(session)

    async with Client(ClientOptions(state=site.folder.path)) as client:
        saving = [asyncio.create_task(save(client)) for _ in range(SAVERS)]
        try:
            yield
        finally:
            for task in saving:
                task.cancel()
            await asyncio.wait(saving)


async def _closed(session: Session) -> None:
    try:
        await session.close()
    except (ServiceError, TimeoutError):
        return  # it ends with the cluster
