"""The answer: the same attacks against each isolation class that this machine has, and what each class costs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import costs
from attack_set import SECRET, Attack, Target, attack_set
from host import find_process

from agent_sandbox import Client, Session
from agent_sandbox.embedded.procs import descendants
from labs.cluster import Cluster, embedded, fresh_folder
from labs.frame import CannotRun, Figures, Say, side
from shared.percentiles import percentile
from shared.pools import ISOLATION_CLASSES, PodLimits, PoolSpec
from shared.testing.secret_servers import Servers, secret_servers

RUN_S = 90.0
FIND_S = 10.0
LOOK_S = 60.0
LIMITS = PodLimits(memory_mib=256, pids=64, disk_mib=64)
STARTS = 5
EMBEDDED = ("process", "landlock", "namespace")
"""What a node without Kubernetes can have; the others need containers or virtual machines."""


async def measure(say: Say) -> Figures:
    """Try every attack in each class."""
    why_not = await asyncio.to_thread(_look_at_machine)
    if os.geteuid() == 0:
        why_not["process"] = (
            "not tried by root: its sandboxes are root's, and what got through would harm this machine"
        )
    there = [name for name in EMBEDDED if not why_not.get(name, "unknown")]
    pools = [
        PoolSpec(name=f"{name}-warm", stock=1, isolation=name, limits=LIMITS) for name in there
    ]
    pools += [
        PoolSpec(name=f"{name}-cold", stock=0, isolation=name, limits=LIMITS) for name in there
    ]
    verdicts, cost = {}, {}
    async with embedded(pools, say, nodes=1) as cluster, cluster.client() as client:
        with fresh_folder() as folder, secret_servers(folder, SECRET) as servers:
            for name in there:
                verdicts[name], cost[name] = await _one(cluster, client, name, servers)
                got = _count(verdicts[name])
                say(f"{name}: {got} of {len(verdicts[name])} attacks got through; {cost[name]}")
    strongest = there[-1]
    return {
        "not_contained": _count(verdicts[strongest]),
        "attacks": sum(word != "no word" for word in verdicts[strongest].values()),
        "kind": strongest,
        "kinds_tried": len(there),
        "verdicts": verdicts,
        "costs": {name: one._asdict() for name, one in cost.items()},
        "missing": {
            name: _reason(why_not, name) for name in ISOLATION_CLASSES if name not in there
        },
    }


def _look_at_machine() -> dict[str, str]:
    """Have a node try the isolation classes; return each with an empty text, or with why it is not here."""
    with fresh_folder() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "local_node", "--probe"],
            env={**os.environ, "LOCAL_NODE_NAME": "lab", "LOCAL_NODE_DIR": str(folder / "node")},
            capture_output=True,
            text=True,
            timeout=LOOK_S,
            check=False,
        )
    if done.returncode != 0:
        raise CannotRun(f"this machine can't be looked at: {done.stderr.strip()[-300:]}")
    found: dict[str, str] = json.loads(done.stdout)["isolation"]
    return found


def _reason(why_not: dict[str, str], name: str) -> str:
    """Return why a class is not here, without the places of this one machine."""
    why = why_not.get(name) or "not offered"
    return why.removeprefix("CheckFailed: ").partition(": /")[0]


def _count(verdicts: dict[str, str]) -> int:
    return sum(word.startswith("NOT") for word in verdicts.values())


async def _one(
    cluster: Cluster, client: Client, name: str, servers: Servers
) -> tuple[dict[str, str], costs.Costs]:
    """Attack out of one sandbox of a class, with another one as the neighbour."""
    async with AsyncExitStack() as stack:
        pool = f"{name}-warm"
        attacker = await stack.enter_async_context(await client.create_session(pool=pool))
        neighbour = await stack.enter_async_context(await client.create_session(pool=pool))
        target = await _lay_out(cluster, attacker, neighbour, name, servers)
        told: dict[str, str] = {}
        verdicts = {}
        for attack in attack_set(target):
            if attack.program not in told:
                told[attack.program] = await _run(attacker, attack)
            verdicts[attack.name] = attack.judged(told[attack.program])
        if (await attacker.exec(["true"], wait_s=RUN_S)).exit_code != 0:
            raise CannotRun(f"{name}: the attacker's own sandbox is broken")
        starts = [await _start_ms(client, f"{name}-cold") for _ in range(STARTS)]
        work = await attacker.exec(["python3", "-c", costs.PROGRAM], wait_s=RUN_S)
        cost = costs.Costs(
            percentile(starts, 50), await _memory(cluster, neighbour), *costs.read_work(work.stdout)
        )
    return verdicts, cost


async def _lay_out(
    cluster: Cluster, attacker: Session, neighbour: Session, name: str, servers: Servers
) -> Target:
    """Give the neighbour a secret in a file, and a process; find both from the host."""
    mark = f"neighbour-of-{name}"
    await neighbour.write(mark, "secret")
    await neighbour.exec("chmod 0644 neighbour-of-*; chmod 0755 .", wait_s=RUN_S)
    line = f"(setsid sh -c 'exec -a {mark} sleep 600' >/dev/null 2>&1 &)"
    await neighbour.exec(["bash", "-c", line.replace("sh -c", "bash -c")], wait_s=RUN_S)
    found = await asyncio.to_thread(_find_file, cluster.folder.path, mark)
    until = asyncio.get_running_loop().time() + FIND_S
    while (pid := await asyncio.to_thread(find_process, mark)) is None:
        if asyncio.get_running_loop().time() > until:
            raise CannotRun(f"{name}: the neighbour's process is not found")
        await asyncio.sleep(0.05)
    record = (await attacker.show()).record
    if record is None or record.owner is None:
        raise CannotRun("the attacker's session has no worker")
    sidecar = await asyncio.to_thread(cluster.worker, record.owner)
    return Target(pid, sidecar.pid, found, *servers)


def _find_file(folder: Path, name: str) -> str:
    for path in folder.rglob(name):
        return str(path)
    raise CannotRun(f"{name} is not found below {folder}")


async def _run(session: Session, attack: Attack) -> str:
    return (await session.exec(["python3", "-c", attack.program], wait_s=RUN_S)).stdout


async def _start_ms(client: Client, pool: str) -> float:
    result = await client.run(["python3", "-c", "print(1)"], pool=pool, wait_s=RUN_S)
    return result.total_s * 1000


async def _memory(cluster: Cluster, session: Session) -> float:
    """Return what a pod takes while it waits: its sidecar, its runner and what keeps it."""
    record = (await session.show()).record
    if record is None or record.owner is None:
        raise CannotRun("the neighbour's session has no worker")
    sidecar = await asyncio.to_thread(cluster.worker, record.owner)
    return costs.pss_mib(sidecar.pid, *(below.pid for below in descendants(sidecar.pid)))


if __name__ == "__main__":
    side(measure)
