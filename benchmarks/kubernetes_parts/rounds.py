"""One fault of a node after another, under sessions at work: done, watched, taken back, until all is as before."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.running import CannotMeasure, say
from harness.site import Site
from recovery_parts.tracker import Hit, Tracker
from soak_parts.workers import Workers

from agent_sandbox.kubernetes.servers import follow_servers
from shared.bus import Bus
from shared.errors import ServiceError
from shared.kube_names import node_token
from shared.kubectl import wait_ready
from shared.testing.node_faults import Fault, NodeFaults

STAYS_S = {"poweroff": 20.0, "kill": 20.0, "hang": 25.0, "cut": 15.0}
"""How long a fault stays at least. A zombie comes back long before Kubernetes notices."""
NOTICED_S = 90.0
"""Longest wait for Kubernetes to notice a node that is gone; it needs 40 to 50 s."""
GONE = ("poweroff", "kill")
"""Faults after which a node is gone."""
GOING_ON_S = 90.0
"""Longest wait for all sessions that were hit."""
READY = "{.status.conditions[?(@.type=='Ready')].status}{'\\n'}"
MENDED_S = 240.0
FULL = 0.75
"""Share of the stock that is warm again before the next fault: some of it is always just claimed."""
FULL_S = 90.0


@dataclass
class Round:
    """One fault."""

    fault: Fault
    node: str
    at_s: float
    """When it began, on the load's clock."""
    hits: list[Hit] = field(default_factory=list)
    not_ready_s: float | None = None
    """From the fault until the API server called the node not ready; None: it did not."""


def is_stuck(hit: Hit) -> bool:
    """Return whether a session was not given up, or had a task in hand and did not go on."""
    waits = hit.detected_s is None or (hit.task is not None and hit.recovered_s is None)
    return waits and not hit.ended


@dataclass
class Rounds:
    """Does faults, and remembers."""

    site: Site
    pool: str
    stock: int
    faults: NodeFaults
    tracker: Tracker
    workers: Workers
    now: Callable[[], float]
    connections: Sequence[tuple[int, Bus]]
    """From outside, each with the port that it leads to: their servers have other addresses after a fault."""
    done: list[Round] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was not as it should be between two faults."""

    async def strike(self, fault: Fault, node: str) -> Round:
        """Do one round.

        Raises:
            CannotMeasure: no session is on the node; or it does not come back.
            FaultFailed: the program that does faults failed.
        """
        token = node_token(node)
        on_it = self.tracker.node_of(token)
        if not on_it:
            raise CannotMeasure(f"no session is on node {node}")
        say(f"{fault} {node}: {len(on_it)} sessions are on it")
        watching = asyncio.create_task(self._watch(node))
        at_s = self.now()
        busy = {one.worker: one.task[2] for one in self.workers.busy()}
        hits = self.tracker.fault(
            fault,
            at_s,
            victims={worker: busy.get(worker) for worker in self.tracker.node_of(token)},
        )
        one = Round(fault, node, at_s, hits)
        self.done.append(one)
        try:
            await asyncio.to_thread(self.faults.do, fault, node)
            await asyncio.sleep(max(0.0, STAYS_S[fault] - (self.now() - at_s)))
            await self._all_go_on(one)
            if fault in GONE:
                await asyncio.wait({watching}, timeout=max(0.0, NOTICED_S - (self.now() - at_s)))
        finally:
            watching.cancel()  # what is said of the node from now on is about its return
            one.not_ready_s = await watching
            await asyncio.to_thread(self.faults.mend, fault, node)
        self._tell(one)
        await self._until_as_before()
        return one

    async def _watch(self, node: str) -> float | None:
        """Return how long the API server went on to call a node ready; None when cancelled before that."""
        began = time.monotonic()
        child = await asyncio.create_subprocess_exec(
            *self.site.kubectl.command("get", "node", node, "-w", "-o", f"jsonpath={READY}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert child.stdout is not None
        try:
            while line := await child.stdout.readline():
                if line.strip() != b"True":
                    return time.monotonic() - began
        except asyncio.CancelledError:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
            await child.wait()
        return None

    async def _all_go_on(self, one: Round) -> None:
        """Wait until each session that was hit was given up, and in a task has gone on; or has ended."""
        until = self.now() + GOING_ON_S
        while self.now() < until and any(map(is_stuck, one.hits)):  # noqa: ASYNC110 - hits are data
            await asyncio.sleep(0.5)
        for hit in filter(is_stuck, one.hits):
            say(f"session {hit.session[1]}, epoch {hit.epoch}, task {hit.task}: does not go on")

    def _tell(self, one: Round) -> None:
        detect = [hit.detect_s for hit in one.hits if hit.detect_s is not None]
        recover = [hit.recover_s for hit in one.hits if hit.recover_s is not None and hit.task]
        ended = sum(hit.ended and hit.detected_s is None for hit in one.hits)
        noticed = "not at all" if one.not_ready_s is None else f"after {one.not_ready_s:.0f} s"
        say(
            f"{one.fault} {one.node}: {len(detect)} of {len(one.hits)} given up within "
            f"{max(detect, default=0):.2f} s, {ended} ended by themselves just before, "
            f"{len(recover)} in a task going on within "
            f"{max(recover, default=0):.2f} s; Kubernetes noticed {noticed}"
        )

    async def _until_as_before(self) -> None:
        """Wait for all services, and for a stock of workers; one that does not come in time is noted."""
        services = (self.site.spaces.system, self.site.spaces.nodes)
        await asyncio.to_thread(wait_ready, self.site.kubectl, services, within_s=MENDED_S, say=say)
        for port, bus in self.connections:
            await follow_servers(self.site.kubectl, self.site.spaces, port, bus)
        until, said = time.monotonic() + FULL_S, "no answer"
        while time.monotonic() < until:
            with contextlib.suppress(ServiceError, CannotMeasure):
                view = await self.site.view(self.pool)
                said = f"{view.warm} of {self.stock} workers warm, {view.reason}"
                if view.warm >= FULL * self.stock:
                    return
            await asyncio.sleep(0.5)
        self.notes.append(f"before the next fault: {said}")
        say(self.notes[-1])
