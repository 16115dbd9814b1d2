"""The faults: workers killed and stopped, a pool-manager killed, the leader of a queue killed. By pid, of this cluster."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from harness.running import CannotMeasure, say

from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import ProcessId, identify
from agent_sandbox.embedded.table import Kind, Row, read_table
from shared import subjects
from shared.bus import Bus
from shared.errors import ServiceError
from shared.ids import SHARDS
from shared.limits import DEATHS_MAX
from soak_parts.workers import Busy, Finder, Workers, fork_servers

KILL_EVERY_S = 0.5
STOP_EVERY_S = 8.0
STOPPED_S = 6.0
"""Longer than T_fence (4 s): the worker is given up, and wakes as a zombie."""
MANAGER_EVERY_S = 25.0
NODE_EVERY_S = 12.0
LEADER_AT = (0.35, 0.7)
"""When a leader is killed, as shares of the run."""
HEALTHY_S = 30.0
"""Longest wait for all servers to be back before another one is killed."""


@dataclass
class Fault:
    """One fault that was done."""

    kind: str
    """`kill`, `stop`, `manager`, `leader`, `node`, `zygote`."""
    at_s: float
    """Since the load began."""
    at_ms: float
    """Wall clock, milliseconds since 1970."""
    victim: str


@dataclass
class Nemesis:
    """Does it, and remembers."""

    folder: Folder
    bus: Bus
    workers: Workers
    random: random.Random
    now: Callable[[], float]
    is_long: Callable[[Busy], bool]
    """Whether a task is one of those that run long enough to be hit in the middle."""
    nodes_too: bool = False
    """Kill nodes and their fork servers as well."""
    faults: list[Fault] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)
    """Faults for which there was no victim at their time, by kind."""
    _stopped: dict[str, ProcessId] = field(default_factory=dict)
    _hit: set[str] = field(default_factory=set)

    async def run(self, seconds: float) -> None:
        """Do all kinds of faults until the time is over; nothing stays stopped."""
        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                group.create_task(self._each(KILL_EVERY_S, self.kill_worker))
                group.create_task(self._each(STOP_EVERY_S, self.stop_worker))
                group.create_task(self._each(MANAGER_EVERY_S, self.kill_manager))
                if self.nodes_too:
                    group.create_task(self._each(NODE_EVERY_S, self.kill_node))
                    group.create_task(self._each(1.6 * NODE_EVERY_S, self.kill_zygote))
                for share in LEADER_AT:
                    group.create_task(self._once(share * seconds, self.kill_leader))
        except TimeoutError:
            pass
        finally:
            for process in self._stopped.values():
                process.send(signal.SIGCONT)

    async def _each(self, every_s: float, act: Callable[[], Awaitable[bool]]) -> None:
        due = time.monotonic()
        while True:
            due += every_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self._try(act)

    async def _once(self, after_s: float, act: Callable[[], Awaitable[bool]]) -> None:
        await asyncio.sleep(after_s)
        await self._try(act)

    async def _try(self, act: Callable[[], Awaitable[bool]]) -> None:
        if not await act():
            self.missed[getattr(act, "__name__", "")] += 1

    def _note(self, kind: str, victim: str) -> None:
        self.faults.append(Fault(kind, self.now(), time.time() * 1000, victim))

    # --- workers -----------------------------------------------------------------------------------------------------

    def choose(self) -> Busy | None:
        """Return a worker in the middle of a task, rather of a long one.

        Never one whose task has cost a process before the last that is forgiven: three deaths of its worker make a
        task poison, which is right for a task that kills and wrong for one that was hit by chance three times.
        """
        busy = [
            one
            for one in self.workers.busy()
            if one.deaths < DEATHS_MAX - 1 and one.worker not in self._hit
        ]
        long = [one for one in busy if self.is_long(one)]
        return self.random.choice(long or busy) if busy else None

    async def _find(self) -> tuple[Busy, ProcessId] | None:
        victim = self.choose()
        if victim is None:
            return None
        find, nodes = Finder(self.folder).find, node_pids(self.folder)
        process = await asyncio.to_thread(find, victim.worker, nodes)
        return None if process is None else (victim, process)

    async def kill_worker(self) -> bool:
        """Kill a worker's process."""
        found = await self._find()
        if found is None:
            return False
        victim, process = found
        self._hit.add(victim.worker)
        self._note("kill", victim.worker)
        return process.send(signal.SIGKILL)

    async def stop_worker(self) -> bool:
        """Stop a worker's process for longer than it takes to be given up; it goes on later."""
        found = await self._find()
        if found is None:
            return False
        victim, process = found
        self._hit.add(victim.worker)
        self._note("stop", victim.worker)
        process.send(signal.SIGSTOP)
        self._stopped[victim.worker] = process
        asyncio.get_running_loop().call_later(STOPPED_S, self._go_on, victim.worker)
        return True

    def _go_on(self, worker: str) -> None:
        if (process := self._stopped.pop(worker, None)) is not None:
            process.send(signal.SIGCONT)

    # --- nodes -------------------------------------------------------------------------------------------------------

    async def kill_node(self) -> bool:
        """Kill a node, and with it all its pods; its supervisor starts it again."""
        running = [row for row in rows(self.folder, "node") if row.process]
        if len(running) < 2:
            return False
        row = self.random.choice(running)
        self._note("node", row.name)
        return row.process is not None and row.process.send(signal.SIGKILL)

    async def kill_zygote(self) -> bool:
        """Kill a fork server of a node, of workers or of sandboxes, and with it all that it forked; it is replaced."""
        nodes = node_pids(self.folder)
        zygotes = [pid for node in nodes for pid in fork_servers(node)]
        process = identify(self.random.choice(zygotes)) if zygotes else None
        if process is None:
            return False
        self._note("zygote", str(process.pid))
        return process.send(signal.SIGKILL)

    # --- services ----------------------------------------------------------------------------------------------------

    async def kill_manager(self) -> bool:
        """Kill a pool-manager; its supervisor starts it again."""
        running = [
            row for row in rows(self.folder, "manager") if row.process and row.state == "running"
        ]
        if len(running) < 2:
            return False
        row = self.random.choice(running)
        self._note("manager", row.name)
        return row.process is not None and row.process.send(signal.SIGKILL)

    async def kill_leader(self) -> bool:
        """Kill the server that leads a queue shard; its supervisor starts it again."""
        if not await self._all_servers_run():
            return False
        shard = self.random.randrange(SHARDS)
        try:
            info = await self.bus.js_api(f"STREAM.INFO.{subjects.queue_stream(shard)}", {})
        except ServiceError as exc:
            say(f"the leader of queue shard {shard} is not known: {exc}")
            return False
        leader = (info.get("cluster") or {}).get("leader")
        for row in rows(self.folder, "server"):
            if row.name == leader and row.process is not None:
                self._note("leader", row.name)
                return row.process.send(signal.SIGKILL)
        return False

    async def _all_servers_run(self) -> bool:
        until = time.monotonic() + HEALTHY_S
        while time.monotonic() < until:
            if all(row.state == "running" for row in rows(self.folder, "server")):
                return True
            await asyncio.sleep(0.2)
        return False


def rows(folder: Folder, kind: Kind) -> list[Row]:
    """Return what the supervisor keeps, of a kind.

    Raises:
        CannotMeasure: its table is gone.
    """
    table = read_table(folder)
    if table is None:
        raise CannotMeasure("the supervisor's table is gone")
    return [row for row in table.rows if row.kind == kind]


def node_pids(folder: Folder) -> list[int]:
    """Return the processes of the nodes, below which all workers are."""
    return [row.process.pid for row in rows(folder, "node") if row.process is not None]
