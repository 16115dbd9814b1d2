"""What one pod may take: its memory, its processes, its disk. Another session's pod has the rest."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Literal

import pytest
from harness.site import declare, open_site, others, withdraw

from agent_sandbox import Client
from agent_sandbox.kubernetes.names import Namespaces
from shared.kubectl import Kubectl
from shared.pools import PodLimits, PoolSpec
from shared.testing import attacks

WAIT_S = 120.0
CLASSES: tuple[Literal["oci", "gvisor"], ...] = ("oci", "gvisor")
LIMITS = PodLimits(memory_mib=160, pids=40, disk_mib=32)
FORKS = (
    attacks.HEAD
    + """
made, why = 0, ""
for _ in range(400):
    try: pid = os.fork()
    except OSError as exc:
        why = errno.errorcode[exc.errno]
        break
    if pid == 0:
        time.sleep(5)
        os._exit(0)
    made += 1
print(json.dumps({"made": made, "why": why}), flush=True)
os.kill(0, signal.SIGKILL)
"""
)
MANY_FILES = """
import time
for number in range(400):
    with open(f"file-{number}", "wb") as file: file.write(b"x" * (1 << 20))
time.sleep(30)
"""


@pytest.fixture(scope="module")
def small_pools(kubectl: Kubectl, system: Namespaces) -> Iterator[dict[str, str]]:
    """Pools of small pods, by their class: all are declared at once, since each declaration replaces the pool-managers."""
    pools = [
        PoolSpec(name=f"test-small-{name}", stock=1, pods_max=6, isolation=name, limits=LIMITS)
        for name in CLASSES
    ]
    names = {pool.name for pool in pools}
    declare(kubectl, system, (*others(kubectl, system, names), *pools))
    yield dict(zip(CLASSES, (pool.name for pool in pools), strict=True))
    withdraw(kubectl, system, names)


@pytest.fixture(params=CLASSES)
async def small(
    small_pools: dict[str, str], request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Client, str]]:
    """A client, and a pool of small pods."""
    async with open_site() as site, site.client() as client:
        yield client, small_pools[request.param]


async def test_a_pod_takes_no_more_than_its_pool_allows(small: tuple[Client, str]) -> None:
    """Memory: the greedy process ends, in gVisor its whole sandbox. Disk: no file passes the bound, and all together end the sandbox. Where the kernel
    counts its processes apart, they end at the bound as well. Then another session runs as if nothing had been."""
    client, pool = small

    greedy = await client.run(["python3", "-c", attacks.EAT_MEMORY], pool=pool, wait_s=WAIT_S)
    large = await client.run(
        ["python3", "-c", attacks.fill_disk("/workspace", "/tmp")], pool=pool, wait_s=WAIT_S
    )
    many = await client.run(["python3", "-c", MANY_FILES], pool=pool, wait_s=WAIT_S)
    after = await client.run("echo fine", pool=pool, wait_s=WAIT_S)

    eaten = [int(word) for word in greedy.stdout.split()]
    assert (greedy.status, greedy.raw.reason) == ("failed", "oom"), greedy.raw
    assert max(eaten, default=0) <= LIMITS.memory_mib, greedy.raw
    assert json.loads(large.stdout.splitlines()[-1])["got"] == [], large.raw
    assert (many.status, many.raw.reason) == ("failed", "limit"), many.raw
    assert after.stdout == "fine\n"


async def test_a_fork_bomb_ends_at_the_pod_s_bound(small: tuple[Client, str]) -> None:
    """With user namespaces or in gVisor; elsewhere the kernel counts all pods' together, and the kubelet must do it."""
    client, pool = small

    bomb = await client.run(["python3", "-c", FORKS], pool=pool, wait_s=WAIT_S)
    alone = await client.run("cat /proc/self/uid_map", pool=pool, wait_s=WAIT_S)

    told = json.loads(bomb.stdout.splitlines()[-1])
    if pool.endswith("gvisor") or "4294967295" not in alone.stdout:
        assert told["why"] == "EAGAIN", told
        assert told["made"] <= LIMITS.pids
    else:
        assert (
            told["made"] == 400
        )  # and this is why docs/kubernetes-pods.md asks for a podPidsLimit
