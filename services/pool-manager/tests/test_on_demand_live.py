"""Pools without stock: a pod for each message, on real servers."""

from __future__ import annotations

from typing import Any

import pytest

from shared import subjects
from shared.testing.look import Look, until
from shared.testing.names import unique

POOLS = [{"name": "default", "stock": 0, "pods_max": 2}]


@pytest.fixture
async def managers(start: Any) -> None:
    """Two pool-managers of a pool without stock."""
    await start("pm-1", pools=POOLS)
    await start("pm-2", pools=POOLS)


async def publish(look: Look, shard: int = 1) -> tuple[str, int]:
    """Publish a one-shot; return its session and its sequence in the lane."""
    session = unique("session")
    subject = subjects.queue(shard, "acme", "default", "interactive")
    ack = await look.bus.publish_acked(subject, b'{"kind": "open"}', message_id=session)
    return session, ack.seq


async def test_a_message_gets_one_pod(managers: None, node: Any, look: Look) -> None:
    """It is told the lane, so that it pulls at once."""
    session, seq = await publish(look)

    worker = (await node.warm(1))[0]
    assert worker.spec.lanes == (("interactive", 1),)
    delivery = await worker.bus.pull("Q1", "default-interactive")
    assert delivery.stream_seq == seq
    await worker.create(session)
    await delivery.ack()
    await worker.finish(close=True)
    await worker.leave()

    await look.in_state(session, "closed")
    assert [pod.rsplit("-", 1)[0] for pod in node.created] == [f"default-d1-{seq}"]


async def test_a_message_whose_pod_died_gets_another(managers: None, node: Any, look: Look) -> None:
    """Under the next name of the same slot."""
    await publish(look)
    first = (await node.warm(1))[0]

    await first.leave("killed")

    second = (await node.warm(1))[0]
    slot, generation = first.spec.pod.rsplit("-", 1)
    assert second.spec.pod == f"{slot}-{int(generation) + 1}"


async def test_pods_max_bounds_the_pods(managers: None, node: Any, look: Look) -> None:
    """The third message waits until a pod is gone."""
    for _ in range(3):
        await publish(look)
    workers = await node.warm(2)
    assert len(node.created) == 2

    await workers[0].leave("exited")

    await until(lambda: len(node.created) == 3)
