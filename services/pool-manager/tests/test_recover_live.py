"""Dead owners on real servers, with two pool-managers: revoked once, with a token for the next worker."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from shared.cluster import Cluster
from shared.identity import roles
from shared.testing.look import Look, until
from shared.testing.names import unique
from shared.testing.peers import BEAT_S


@pytest.fixture
async def session(start: Any) -> str:
    """A session's name; two pool-managers look after it, with a short T_fence."""
    await start("pm-1", fence_s=1.6)
    await start("pm-2", fence_s=1.6)
    return unique("session")


async def test_a_dead_process_is_revoked_at_once(node: Any, look: Look, session: str) -> None:
    """The node's word is proof: no waiting for heartbeats."""
    worker = (await node.warm(2))[0]
    await worker.create(session)

    await worker.leave("killed")
    record = await look.in_state(session, "queued")

    assert (record.epoch, record.deaths, record.lane) == (2, 1, "recovery")
    assert record.interruptions[0].cause == "process_exit"
    assert record.interruptions[0].worker == worker.spec.pod
    assert [t.split(".")[4] for t in await until(lambda: look.tokens(session))] == ["recovery"]


async def test_a_silent_worker_is_revoked_after_t_fence(
    node: Any, look: Look, session: str
) -> None:
    """No proof of death: the epoch rises by the clock, and no death is counted."""
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await until(lambda: worker.record)
    began = time.monotonic()

    worker.silent = True
    record = await look.in_state(session, "queued")

    assert (
        time.monotonic() - began > 0.8
    )  # counted from the last heartbeat, which may be a while ago
    assert record.interruptions[0].cause == "heartbeats_missed"
    assert record.deaths == 0


async def test_a_dropped_connection_is_no_proof_while_its_node_has_the_pod(
    node: Any, look: Look, session: str
) -> None:
    """The servers tell of the disconnect, the node of no end: it is given up for its silence, and no death is counted."""
    ready = time.monotonic()
    worker = (await node.warm(2))[0]
    await worker.create(session)
    # A pool-manager that has just started believes in no silence.
    await until(lambda: time.monotonic() - ready > 1.7)

    await worker.stop()
    record = await look.in_state(session, "queued")

    assert record.interruptions[0].cause == "heartbeats_missed"
    assert record.deaths == 0


async def test_an_owner_that_does_not_know_it_is_revoked(
    node: Any, look: Look, session: str
) -> None:
    """A claim whose answer was lost: the heartbeats go on and name nothing."""
    worker = (await node.warm(2))[0]

    await worker.create(session, tell=False)
    record = await look.in_state(session, "queued")

    assert record.interruptions[0].cause == "not_named"
    assert record.epoch == 2


async def test_three_deaths_in_one_task_are_poison(node: Any, look: Look, session: str) -> None:
    """The third one ends the session, with a result that says so."""
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.leave("killed")
    for epoch in (2, 4):
        record = await look.in_state(session, "queued")
        assert record.epoch == epoch
        worker = (await node.warm(1))[0]
        await worker.claim(look, session)
        await worker.leave("killed")

    record = await look.in_state(session, "poison")

    assert record.deaths == 3
    result = await look.result(session)
    assert result is not None
    assert (result.status, result.reason) == ("poison", "deaths")
    assert len(result.interruptions) == 3


async def test_a_lost_token_is_sent_again(node: Any, look: Look, session: str) -> None:
    """The lane is empty and nobody claimed for two seconds: another token."""
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.leave("killed")
    await look.in_state(session, "queued")
    await until(lambda: look.tokens(session))

    for shard in range(3):
        await look.bus.js_api(f"STREAM.PURGE.Q{shard}", {})

    assert await until(lambda: look.tokens(session))


async def test_a_client_that_calls_itself_as_a_worker_does_is_not_taken_for_it(
    start: Any, node: Any, look: Look, connect: Any, provisioned_cluster: Cluster
) -> None:
    """Its disconnect says nothing of the worker, which is given up for its own silence, later."""
    fence_s = 1.2
    await start("pm-1", fence_s=fence_s)
    session = unique("session")
    worker = (await node.warm(2))[0]
    await worker.create(session)
    client = await connect(
        roles.publisher("acme"),
        name=worker.spec.pod,
        signer=provisioned_cluster.identity.client_signer,
    )
    await asyncio.sleep(fence_s)  # from here on silence is believed

    worker.silent = True
    await asyncio.sleep(2 * BEAT_S)
    await client.close()

    record = await look.in_state(session, "queued")
    assert record.interruptions[-1].cause == "heartbeats_missed"
