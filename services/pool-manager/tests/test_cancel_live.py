"""Cancels at every stage, on real servers."""

from __future__ import annotations

from typing import Any

import pytest

from shared import headers, messages, subjects
from shared.bus import Bus
from shared.cluster import Cluster
from shared.messages import CancelAnswer, CancelAsk, Credential
from shared.testing.look import Look
from shared.testing.names import unique


@pytest.fixture
async def session(start: Any) -> str:
    """A session's name; two pool-managers serve."""
    await start("pm-1")
    await start("pm-2")
    return unique("session")


async def cancel(bus: Bus, session: str, task: str, pool: str | None = None) -> CancelAnswer:
    """Ask for a cancel as a client does."""
    subject = subjects.cancel("acme", session, task)
    reply = await bus.request(subject, messages.encode(CancelAsk(pool=pool)), timeout_s=5.0)
    return messages.decode(reply.data, CancelAnswer)


async def test_a_cancel_before_the_publish_ends_the_session(look: Look, session: str) -> None:
    """Record and result are there before the message: a later publish under that id is dropped."""
    answer = await cancel(look.bus, session, session, pool="default")

    assert (answer.outcome, answer.status) == ("cancelled", "cancelled")
    record = await look.in_state(session, "cancelled")
    assert record.pool == "default"
    result = await look.result(session)
    assert result is not None
    assert (result.status, result.reason) == ("cancelled", "requested")


async def test_a_cancel_before_the_publish_needs_the_pool(look: Look, session: str) -> None:
    """Without it there is nowhere to write the record, and nothing is written."""
    answer = await cancel(look.bus, session, session)

    assert answer.outcome == "unknown"
    assert await look.record(session) is None


async def test_a_queued_session_is_cancelled_without_a_worker(
    node: Any, look: Look, session: str
) -> None:
    """Its worker died before its first task had a result."""
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.leave("killed")
    await look.in_state(session, "queued")

    answer = await cancel(look.bus, session, session)

    assert answer.outcome == "cancelled"
    record = await look.in_state(session, "cancelled")
    assert record.epoch == 3
    assert (await cancel(look.bus, session, session)).outcome == "cancelled"


async def test_a_running_task_is_cancelled_by_its_owner(
    node: Any, look: Look, session: str
) -> None:
    """The answer comes after the owner's commit."""
    worker = (await node.warm(2))[0]
    await worker.create(session)

    answer = await cancel(look.bus, session, session)

    assert (answer.outcome, answer.status) == ("cancelled", "cancelled")
    assert [order.epoch for order in worker.orders] == [1]
    result = await look.result(session)
    assert result is not None
    assert result.status == "cancelled"


async def test_an_owner_whose_answer_is_lost_is_asked_again_and_the_outcome_is_what_it_did(
    node: Any, look: Look, session: str, nats_cluster: Cluster
) -> None:
    """Its credential was renewed between order and answer: the servers refuse an answer from the newer connection."""
    worker = (await node.warm(2))[0]
    await worker.create(session)
    finish = worker.finish

    async def finish_and_renew(**how: Any) -> None:
        await finish(**how)
        former, spec = worker.spec.credential, worker.spec
        signer = nats_cluster.identity.worker_signer
        jwt = signer.renew(former.jwt, spec.pool, spec.pod, valid_s=60)
        await worker.bus.use_credential(Credential(jwt=jwt, seed=former.seed))

    worker.finish = finish_and_renew

    answer = await cancel(look.bus, session, session)

    assert (answer.outcome, answer.status) == ("cancelled", "cancelled")
    assert len(worker.bus.refusals) == 1
    assert {(order.session, order.task, order.epoch) for order in worker.orders} == {
        (session, session, 1)
    }
    result = await look.result(session)
    assert result is not None
    assert (result.status, result.reason) == (answer.status, None)


async def test_an_owner_that_refused_an_order_unheard_is_asked_the_same_again(
    node: Any, look: Look, session: str, nats_cluster: Cluster
) -> None:
    """It ran another task, and its word of that was lost: the task that waits is ended, the one that runs goes on."""
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await look.send(session, "task-0001")
    publish = worker.bus.publish
    renewed = False

    async def renew_and_publish(subject: str, data: bytes = b"", **how: Any) -> None:
        nonlocal renewed
        if subject.startswith("_INBOX") and not renewed:
            renewed = True
            former, spec = worker.spec.credential, worker.spec
            signer = nats_cluster.identity.worker_signer
            jwt = signer.renew(former.jwt, spec.pool, spec.pod, valid_s=60)
            await worker.bus.use_credential(Credential(jwt=jwt, seed=former.seed))
        await publish(subject, data, **how)

    worker.bus.publish = renew_and_publish

    answer = await cancel(look.bus, session, "task-0001")

    assert answer.outcome == "cancelled"
    assert [(order.task, order.epoch) for order in worker.orders] == [("task-0001", 1)] * 2
    assert (await look.in_state(session, "running")).epoch == 1
    assert await look.result(session) is None


async def test_an_inbox_task_is_cancelled_while_its_session_runs_another(
    node: Any, look: Look, session: str
) -> None:
    """Its result alone is written; the running task goes on."""
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await look.send(session, "task-0001")

    answer = await cancel(look.bus, session, "task-0001")

    assert answer.outcome == "cancelled"
    assert (await look.in_state(session, "running")).epoch == 1
    assert await look.result(session) is None


async def test_a_cancelled_replay_says_of_what(node: Any, look: Look, session: str) -> None:
    """As the result of any other end does, also when it was accepted."""
    worker = (await node.warm(2))[0]
    await worker.create(session)
    ack = await look.bus.publish_acked(
        subjects.inbox("acme", session, "task-0002"),
        b"{}",
        message_id=f"{session}:task-0002",
        headers={headers.REPLAY_OF: "task-0001"},
    )

    assert (await cancel(look.bus, session, "task-0002")).outcome == "cancelled"

    result = await look.result(session, "task-0002")
    assert result is not None
    assert result.replay_of == "task-0001"
    stored = await look.bus.read_next(
        ack.stream, subjects.inbox("acme", session), after_seq=ack.seq - 1
    )
    assert stored is not None
    assert result.timing.accepted_ms == stored.time_ms


async def test_a_finished_task_is_not_cancelled(node: Any, look: Look, session: str) -> None:
    """The answer tells the status that it has."""
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.finish(close=True)

    answer = await cancel(look.bus, session, session)

    assert (answer.outcome, answer.status) == ("finished", "ok")


async def test_a_bad_id_is_refused_with_a_reason(look: Look, session: str) -> None:
    """Nothing is written under a subject that no task can have."""
    answer = await cancel(look.bus, "short", "short", pool="default")

    assert answer.outcome == "unknown"
    assert answer.error is not None
    assert answer.error.code == "invalid_message"
