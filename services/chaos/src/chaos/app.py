"""Puts a run together: a cluster of its own, ways in, load, faults, observer, history; then the verdict and the report."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from chaos.adapters.cluster import Embedded, embedded
from chaos.adapters.doors import POOL, SdkDoor
from chaos.adapters.history_file import HISTORY, HistoryFile, history_in, read_history
from chaos.adapters.kubernetes import KubeCluster, Where, on_kubernetes
from chaos.adapters.machine import describe_machine, find_commit, read_waited_s
from chaos.adapters.observer import Observer, count_unseen, observe
from chaos.adapters.screen import Screen
from chaos.adapters.usage import read_held
from chaos.core.report.data import Findings, conclude
from chaos.core.report.page import page
from chaos.core.rows import Footer, Header
from chaos.core.scenario import Scenario
from chaos.loops.drive import Drive
from chaos.loops.gauges import Pools, watch_gauges, watch_usage
from chaos.loops.schedule import Schedule
from chaos.loops.users import Stage
from chaos.nemesis import FAULTS
from chaos.nemesis.kubernetes import KUBE_FAULTS
from chaos.ports.faults import Fault, Injected
from chaos.ports.standing import Pace, Standing
from shared.errors import ServiceError
from shared.pools import PoolSpec

CLIENTS = 6
"""Connections of each way, shared by the users."""
PAGE, DATA = "report.html", "report.json"
LAST_READ_S = 90.0

Say = Callable[[str], None]
Cluster = Embedded | KubeCluster


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to run."""

    scenario: Scenario
    seed: int
    out: Path
    """A new folder: history and report."""
    isolation: str = "auto"
    """Class of the sandboxes; `auto`: the strongest that this machine has."""
    where: Where | None = None
    """A system on Kubernetes; None: an embedded cluster of its own."""
    is_live: bool = False
    """Draw how it stands in the terminal."""


async def run(order: Order, say: Say) -> Findings:
    """Run an experiment to its end, judge it and write the report; an abort leaves a history that can be judged, too.

    Raises:
        ServiceError: the cluster did not come up, can't be observed, or can't be read at the end.
        FileExistsError: there is something in the folder already.
    """
    order.out.mkdir(parents=True, exist_ok=True)
    with HistoryFile(order.out / HISTORY) as notes:
        await _run(order, notes, say)
    return judge_folder(order.out)


def judge_folder(folder: Path) -> Findings:
    """Judge the history in a folder, and write the report beside it.

    Raises:
        ValueError: it is no history.
        OSError: it can't be read, or the report not be written.
    """
    found = conclude(read_history(history_in(folder)))
    (folder / DATA).write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    (folder / PAGE).write_text(page(found), encoding="utf-8")
    return found


async def _run(order: Order, notes: HistoryFile, say: Say) -> None:
    scenario = order.scenario
    pool = PoolSpec(
        name=pool_of(order),
        stock=scenario.stock,
        pods_max=2 * scenario.sessions + 3 * scenario.stock,
        idle_release_s=scenario.idle_release_s,
        isolation=isolation_of(order),  # type: ignore[arg-type]  # the pool checks it
    )
    stage = Stage(notes, Pace(), Standing())
    async with _cluster(order, pool, notes.now, say) as cluster:
        isolation = await cluster.wait_warm(pool.name, scenario.stock, say)
        async with _doors(cluster, pool.name) as doors:
            began_ms = notes.begin()
            notes.write(_header(order, began_ms, isolation))
            observer = Observer(notes, began_ms, pool.name)
            screen = Screen(stage.standing, notes.now, say, is_live=order.is_live)
            made = Maker(cluster, order.seed)
            schedule = Schedule(scenario, made.make, stage, screen.tell)
            schedule.hears_injected = lambda done: _note_hit(done, observer, stage.standing)
            drive = Drive(scenario, schedule, stage, doors, made.dice, screen.tell)
            is_aborted = True
            unseen = 0
            try:
                async with observe(observer, (cluster.admin, cluster.second)) as recorder:
                    jobs = [_watch(cluster, pool.name, stage, scenario), screen.run(observer)]
                    if isinstance(cluster, Embedded):
                        jobs.append(watch_usage(partial(read_held, cluster), stage))
                    async with beside(say, *jobs):
                        await drive.run()
                    unseen = await count_unseen(recorder, LAST_READ_S)
                is_aborted = False
            finally:
                notes.write(Footer(time=notes.now(), unseen=unseen, is_aborted=is_aborted))
    say("the cluster is gone; judging")


def _cluster(
    order: Order, pool: PoolSpec, now: Callable[[], float], say: Say
) -> AbstractAsyncContextManager[Cluster]:
    if order.where is not None:
        return on_kubernetes(order.where, pool, now, say)
    scenario = order.scenario
    needs = frozenset(need for fault in scenario.faults() for need in FAULTS[fault].needs)
    return embedded(pool, scenario.nodes, now, say, needs)


def _header(order: Order, began_ms: int, isolation: str) -> Header:
    scenario = order.scenario
    return Header(
        time=0.0,
        run=scenario.name,
        seed=order.seed,
        commit=find_commit(),
        began_ms=began_ms,
        machine=describe_machine(isolation),
        settings=msgspec.to_builtins(scenario),
    )


class Maker:
    """Makes faults and dice, all from one seed."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        """Draw from `seed`."""
        self._cluster, self._seed, self._made = cluster, seed, 0

    def make(self, name: str) -> Fault:
        """Make the next fault; what it hits is drawn from the seed and its place in the schedule."""
        self._made += 1
        dice = self.dice(f"fault-{self._made}")
        if isinstance(self._cluster, KubeCluster):
            return KUBE_FAULTS[name](self._cluster, dice)
        return FAULTS[name](self._cluster, dice)

    def dice(self, purpose: str) -> Random:
        """Return dice of their own for a purpose."""
        return random.Random(f"{self._seed}/{purpose}")


def pool_of(order: Order) -> str:
    """Return a name for the run's pool: on Kubernetes a new one, for sessions of earlier runs are still there."""
    return POOL if order.where is None else f"{POOL}-{secrets.token_hex(3)}"


def isolation_of(order: Order) -> str:
    """Return the class that its pool asks for: containers on Kubernetes, unless one is named."""
    return "oci" if order.where is not None and order.isolation == "auto" else order.isolation


def _note_hit(done: Injected, observer: Observer, standing: Standing) -> None:
    standing.hit = {
        session: version.epoch
        for session, version in observer.versions.items()
        if version.state == "running" and version.node in done.targets
    }


async def _watch(cluster: Cluster, pool: str, stage: Stage, scenario: Scenario) -> None:
    async def ask() -> Pools:
        with suppress(ServiceError):
            answer = await cluster.pools()
            return {
                view.pool: (view.warm, view.starting, view.bound)
                for view in answer.pools
                if view.pool == pool
            }
        return {}

    await watch_gauges(read_waited_s, ask, stage, scenario.baseline_until_s())


@asynccontextmanager
async def beside(say: Say, *jobs: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run jobs while the block lasts; one that fails is told of when the block has ended."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                say(f"what ran beside the load failed: {ended!r}")


@asynccontextmanager
async def _doors(cluster: Cluster, pool: str) -> AsyncIterator[dict[str, list[SdkDoor]]]:
    """Connect clients, of both ways."""
    async with AsyncExitStack() as stack:
        doors: dict[str, list[SdkDoor]] = {"nats": [], "http": []}
        for _ in range(CLIENTS):
            for via, client in (("nats", cluster.client()), ("http", cluster.web_client())):
                doors[via].append(SdkDoor(await stack.enter_async_context(client), via, pool))
        yield doors
