"""Dead pods on a living node, on real servers: their workspaces are saved before anybody else may have the session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from shared import messages, subjects
from shared.errors import ErrorInfo
from shared.identity import roles
from shared.record import Death, Record, Rescue
from shared.testing.look import Look, now_ms, until
from shared.testing.names import unique
from shared.testing.peers import WorkerPeer
from shared.testing.rescuers import CheckpointerPeer, snapshot
from shared.transitions import revoke

RESUME = b'{"on_interrupt": "resume"}'


@pytest.fixture
async def checkpointer(connect: Any) -> AsyncIterator[CheckpointerPeer]:
    """The node's."""
    bus = await connect(roles.checkpointer("node-a"), name="ckpt-node-a")
    peer = CheckpointerPeer("node-a", bus)
    await peer.start()
    yield peer
    await peer.stop()


@pytest.fixture
async def worker(start: Any, checkpointer: CheckpointerPeer, node: Any) -> WorkerPeer:
    """A warm worker; two pool-managers look after it."""
    await start("pm-1", fence_s=1.6)
    await start("pm-2", fence_s=1.6)
    warm: list[WorkerPeer] = await node.warm(2)
    await checkpointer.is_heard()
    return warm[0]


async def idle(worker: WorkerPeer) -> str:
    """Create a session whose first task is done; return its name."""
    session = unique("session")
    await worker.create(session)
    await worker.finish()
    return session


async def in_rescue(look: Look, session: str, checkpointer: CheckpointerPeer) -> Record:
    """Wait until the checkpointer was asked; return the record."""
    record: Record = await look.in_state(session, "rescuing")
    await until(lambda: bool(checkpointer.asks))
    return record


async def test_an_idle_session_is_saved_before_it_goes_on(
    worker: WorkerPeer, checkpointer: CheckpointerPeer, look: Look
) -> None:
    """No worker may claim it meanwhile, and the pod keeps its files; then it waits with all that it had."""
    session = await idle(worker)

    await worker.leave("killed")
    record = await in_rescue(look, session, checkpointer)
    assert (record.owner, record.node, record.epoch) == ("ckpt-node-a", "node-a", 2)
    assert not await look.tokens(session)
    checkpointer.go_on.set()
    record = await look.in_state(session, "queued")

    assert record.boundary is not None
    assert record.boundary.id == snapshot(2).id
    assert (record.epoch, record.lost, record.lane) == (2, None, "recovery")
    assert await until(lambda: look.tokens(session))
    assert [(ask.pod, ask.epoch) for ask in checkpointer.asks] == [(worker.spec.pod, 2)]


async def test_a_task_that_goes_on_where_it_was_finds_its_files(
    worker: WorkerPeer, checkpointer: CheckpointerPeer, look: Look
) -> None:
    """`resume`: what it had written until its death is the newest snapshot of that task."""
    session = unique("session")
    checkpointer.go_on.set()
    await worker.create(session, payload=RESUME)

    await worker.leave("killed")
    record = await look.in_state(session, "queued")

    assert record.latest is not None
    assert (record.latest.snapshot.id, record.latest.task) == (snapshot(2).id, session)
    assert record.boundary is None
    assert record.deaths == 1


async def test_a_task_that_runs_again_from_its_beginning_waits_for_no_rescue(
    worker: WorkerPeer, checkpointer: CheckpointerPeer, look: Look
) -> None:
    """`rerun`, the default: what the dead pod held would be thrown away."""
    session = unique("session")
    await worker.create(session)

    await worker.leave("killed")
    record = await look.in_state(session, "queued")

    assert record.epoch == 2
    assert checkpointer.asks == []


class Late(NamedTuple):
    """A task comes in when its worker is dead already, or was in the dead worker's hands."""

    whole: bool | None
    rescued: bool
    begun: bool = False


@pytest.mark.parametrize(
    "late", [Late(True, True), Late(False, False, begun=True), Late(None, False)],
    ids=["nothing-had-begun", "it-had-begun", "nobody-answers"],
)  # fmt: skip
async def test_a_task_that_runs_again_costs_nothing_that_was_there_before_it(
    worker: WorkerPeer, checkpointer: CheckpointerPeer, look: Look, late: Late
) -> None:
    """What ran beside the tasks wrote it: where nothing of the new task had begun, it is saved before that runs.

    Nor is the death that task's, if its worker did not say that it had begun.
    """
    session = await idle(worker)
    checkpointer.whole = late.whole
    checkpointer.go_on.set()

    await look.send(session, "task-0002")
    if late.begun:
        worker.task = "task-0002"
    await worker.is_heard()
    await worker.leave("killed")
    record = await look.in_state(session, "queued")

    assert {(ask.op, ask.pod, ask.epoch, ask.task) for ask in checkpointer.looks} == {
        ("look", worker.spec.pod, 2, "")
    }
    assert len(checkpointer.looks) >= 1
    saved = [] if not late.rescued else [(2, "task-0002")]
    assert [(ask.epoch, ask.task) for ask in checkpointer.asks] == saved
    found = (record.boundary is not None, record.epoch, record.deaths)
    assert found == (late.rescued, 2, int(late.begun))
    assert bool(record.interruptions) != late.rescued


async def test_a_rescue_that_fails_is_given_up_at_once(
    worker: WorkerPeer, checkpointer: CheckpointerPeer, look: Look
) -> None:
    """The session goes on from what was saved before, under one epoch more, and is told what it lost."""
    session = await idle(worker)
    checkpointer.fails = ErrorInfo(code="unavailable", message="the store is down")
    checkpointer.go_on.set()

    await worker.leave("killed")
    record = await look.in_state(session, "queued")

    assert record.epoch == 3
    assert record.lost is not None
    assert record.lost.cause == "rescue_unavailable"
    assert await until(lambda: look.tokens(session))


async def test_a_checkpointer_that_dies_in_a_rescue_is_given_up(
    worker: WorkerPeer, checkpointer: CheckpointerPeer, look: Look
) -> None:
    """As a worker that is silent: nobody waits for the deadline."""
    session = await idle(worker)
    await worker.leave("killed")
    record = await in_rescue(look, session, checkpointer)
    assert record.rescue_until_ms - record.claimed_ms > 10_000

    await checkpointer.stop()
    record = await look.in_state(session, "queued", within_s=6)

    assert record.epoch == 3
    assert record.lost is not None
    assert record.lost.cause == "checkpointer_lost"


async def test_without_a_checkpointer_that_can_save_nothing_is_waited_for(
    worker: WorkerPeer, checkpointer: CheckpointerPeer, look: Look
) -> None:
    """Its store is down, and it says so in its heartbeats: the session goes on at once."""
    session = await idle(worker)
    checkpointer.unavailable = "the store is down"
    await checkpointer.is_heard()

    await worker.leave("killed")
    record = await look.in_state(session, "queued")

    assert record.epoch == 2
    assert checkpointer.asks == []


async def test_a_rescue_that_nobody_asked_for_yet_is_asked_for_by_the_next_manager(
    start: Any, node: Any, checkpointer: CheckpointerPeer, look: Look
) -> None:
    """The first one dies between its write and its question: nobody waits for the rescue's deadline."""
    stop = await start("pm-1", fence_s=1.6)
    worker = (await node.warm(2))[0]
    session = await idle(worker)
    stop.set("test")
    record = await look.record(session)
    stored = await look.stored(session)
    assert record is not None
    assert stored is not None
    death = Death(cause="process_exit", process_died=True, in_task=False)
    until_ms = now_ms() + 60_000
    rescue = Rescue(owner="ckpt-node-a", node="node-a", until_ms=until_ms)
    rescuing = revoke(record, death=death, now_ms=now_ms(), rescue=rescue)
    subject = subjects.record(rescuing.pool, rescuing.tenant, session)
    bus = worker.bus
    await bus.compare_and_set(subject, messages.encode(rescuing), expected_seq=stored.seq)
    checkpointer.go_on.set()

    await start("pm-2", fence_s=1.6)
    saved = await look.in_state(session, "queued")

    assert (saved.boundary is not None, saved.epoch) == (True, 2)
    assert {(ask.pod, ask.epoch) for ask in checkpointer.asks} == {(worker.spec.pod, 2)}
    assert await until(lambda: look.tokens(session))


@pytest.mark.slow
async def test_a_rescue_goes_on_without_the_manager_that_asked_for_it(
    start: Any, node: Any, checkpointer: CheckpointerPeer, look: Look
) -> None:
    """It leaves in the middle; the next one asks how far it is, and sends the token."""
    stop = await start("pm-1", fence_s=1.6)
    worker = (await node.warm(2))[0]
    await checkpointer.is_heard()
    session = await idle(worker)
    await worker.leave("killed")
    await in_rescue(look, session, checkpointer)
    stop.set("test")
    await start("pm-2", fence_s=1.6)

    checkpointer.go_on.set()
    record = await look.in_state(session, "queued")

    assert record.boundary is not None
    assert await until(lambda: look.tokens(session), within_s=6)
