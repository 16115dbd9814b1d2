"""What services say of themselves while NATS is dead, hangs or is cut off, and while they hang themselves."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from shared.cluster.ports import LOOPBACK
from shared.testing.cut import RelayedCluster, RelayedServer
from shared.testing.wait import until

Program = Any
"""A service as a process, as conftest.py makes it."""
TOLD_S = 4.0
"""As docs/metrics.md promises."""
LOOK_S = 0.05
NATS_LOST = ("pool_manager", "local_node")


async def until_told(programs: dict[str, Program]) -> dict[str, tuple[float, str]]:
    """Wait until all say that they are not ready; return after how long each did, and why. None may call itself dead."""
    began = time.monotonic()
    told: dict[str, tuple[float, str]] = {}
    async with asyncio.timeout(3 * TOLD_S):
        while len(told) < len(programs):
            for name in programs.keys() - told.keys():
                view = await programs[name].look()
                assert view.live, (name, view)
                if not view.ready:
                    told[name] = (time.monotonic() - began, view.why)
            await asyncio.sleep(LOOK_S)
    return told


async def show_fault(
    programs: dict[str, Program], strike: Callable[[], None], heal: Callable[[], None]
) -> None:
    """Strike; all are told in time and stay so, live. Heal; all are ready again, the same processes."""
    await asyncio.to_thread(strike)
    told = await until_told(programs)
    for _ in range(10):
        views = {name: await program.look() for name, program in programs.items()}
        assert not [name for name, view in views.items() if view.ready or not view.live], views
        await asyncio.sleep(LOOK_S)
    await asyncio.to_thread(heal)
    for program in programs.values():
        await until(program.is_ready, within_s=40)

    assert {name: took_s for name, (took_s, _) in told.items() if took_s > TOLD_S + 0.5} == {}
    assert all("nats: no" in told[name][1] or "shards: " in told[name][1] for name in NATS_LOST)
    assert all("server: " in told[name][1] for name in told.keys() - set(NATS_LOST))


@pytest.mark.timeout(120)
async def test_no_service_is_ready_while_no_server_is_reached(
    cluster: RelayedCluster, programs: dict[str, Program]
) -> None:
    """The network is cut: no connection ends, nothing is refused, nothing arrives."""

    def cut() -> None:
        for server in cluster.servers:
            server.cut_clients()

    def heal() -> None:
        for server in cluster.servers:
            server.heal()

    await show_fault(programs, cut, heal)


def start(server: RelayedServer) -> None:
    """Start a server again; it dies with this process."""
    server.start(die_with_parent=True)


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_no_service_is_ready_while_all_servers_hang_or_are_dead(
    cluster: RelayedCluster, programs: dict[str, Program]
) -> None:
    """SIGSTOP, as a hang, then SIGKILL: each is told in time, and that it is over as well."""

    def each(act: Callable[[RelayedServer], None]) -> Callable[[], None]:
        def do() -> None:
            for server in cluster.servers:
                act(server)

        return do

    await show_fault(programs, each(RelayedServer.pause), each(RelayedServer.resume))
    await show_fault(programs, each(RelayedServer.kill), each(start))


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_pool_manager_is_not_ready_while_nothing_can_be_written(
    cluster: RelayedCluster, programs: dict[str, Program]
) -> None:
    """One server of three answers on the connection, and no shard has a leader: that is no readiness."""
    manager = {"pool_manager": programs["pool_manager"]}

    async def is_told() -> bool:
        view = await manager["pool_manager"].look()
        assert view.live
        return not view.ready and "no state shard has a leader" in view.why

    for server in cluster.servers[1:]:
        server.kill()
    await until(is_told, within_s=30)  # a leader without a majority notices after some 10 s
    for server in cluster.servers[1:]:
        start(server)
    await until(manager["pool_manager"].is_ready, within_s=40)


@pytest.mark.slow
async def test_a_service_whose_event_loop_stands_still_is_not_live(edge: Program) -> None:
    """Its log's reader has stopped, so its next line takes for ever: only a restart helps, and it says so itself."""
    edge.block()
    _, writer = await asyncio.open_connection(LOOPBACK, edge.port)
    writer.write(b"nonsense\r\n")  # is worth a line

    async def is_unready_and_live() -> bool:
        view = await edge.look()
        return view.live and not view.ready and "event loop: stands still" in view.why

    async def is_dead() -> bool:
        return (await edge.look()).why.startswith("the event loop stands still")

    await until(is_unready_and_live, within_s=15)
    await until(is_dead, within_s=15)
    writer.close()


async def test_a_service_that_is_stopped_says_nothing_and_is_as_before_when_it_goes_on(
    edge: Program,
) -> None:
    """SIGSTOP: no probe is answered, so nobody takes it for ready. Afterwards it is at no moment called dead."""
    edge.process.send_signal(signal.SIGSTOP)
    stopped = await edge.look()
    await asyncio.sleep(1.0)  # longer than a look of its own may be late
    edge.process.send_signal(signal.SIGCONT)
    until_s = time.monotonic() + 1.0
    after = [await edge.look()]
    while time.monotonic() < until_s:
        after.append(await edge.look())
        await asyncio.sleep(LOOK_S)
    await until(edge.is_ready)

    assert not stopped.answers
    assert not stopped.ready
    assert [view for view in after if not view.live or "stands still" in view.why] == []
