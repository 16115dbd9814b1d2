"""A renewal goes over to a second connection, and something happens at a chosen word of that: the servers are well."""

from __future__ import annotations

import asyncio

import pytest
from tests.integration.bus.moving import PING, PONG, Pair, kept, mint, reach, renew

from shared import subjects
from shared.cluster import Cluster
from shared.errors import Unavailable
from shared.testing.names import unique
from shared.testing.wait import until


@pytest.mark.parametrize(
    ("stage", "fault"),
    [
        ("introduced", "cut"),
        ("asked", "cut"),
        ("answered", "cut"),
        ("introduced", "silent"),
        ("answered", "silent"),
    ],
)
async def test_a_second_connection_that_is_lost_costs_nothing(
    stage: str, fault: str, pair: Pair, provisioned_cluster: Cluster
) -> None:
    """The first one goes on, also with what was held, and the renewal is tried again."""
    held = reach(pair.tap, stage)
    renewal = renew(pair, provisioned_cluster)
    await held.wait()
    await pair.say()
    await pair.tell()
    if stage == "asked":  # it hears all: what the group gave it has come before it is lost
        await until(lambda: not pair.wrong())
    if fault == "cut":
        pair.tap.talks[1].cut()
    async with asyncio.timeout(15):
        await renewal

    held.go()
    if stage == "answered":  # a member that was lost takes with it what it was given
        pair.heard["shared"].update(n for n in range(20) if not pair.heard["shared"][n])
    await pair.check()
    assert len(pair.tap.talks) == 3
    assert pair.lost == 0


async def test_a_move_that_is_given_up_loses_nothing_and_hands_on_nothing_twice(
    pair: Pair, provisioned_cluster: Cluster
) -> None:
    """Though the second connection was heard already: what it was given is taken, and known when the first brings it."""
    first, asked = pair.tap.hold(1, "down", PONG, 2), pair.tap.hold(2, "up", PING, 2)
    renewal = renew(pair, provisioned_cluster)
    await first.wait()
    await asked.wait()
    await pair.tell()  # the second brings it; on the first it is under way
    await until(lambda: len(pair.heard["in"]) == 20)
    answered = pair.tap.hold(2, "down", PONG, 1)
    asked.go()
    await answered.wait()
    answered.go()
    await pair.tell()  # and this, when nobody reads there any more
    second = pair.tap.talks[1]
    await until(lambda: b"UNSUB" in second.said or second.ended.is_set())
    first.go()
    async with asyncio.timeout(15):
        await renewal

    await pair.check()
    assert pair.lost == 0


@pytest.mark.parametrize("stage", ["introduced", "asked", "answered", "leaving"])
async def test_a_connection_lost_in_the_middle_of_a_move_is_made_again(
    stage: str, pair: Pair, provisioned_cluster: Cluster
) -> None:
    """The one in use is cut: what streams acknowledged is stored, once; the newest credential is shown."""
    tenant, stored = unique("t"), set[str]()
    done = asyncio.Event()

    async def store() -> None:
        while not done.is_set():
            one = unique("m")
            await pair.bus.publish_acked(
                subjects.queue(0, tenant, "other", "batch"), one.encode(), message_id=one
            )
            stored.add(one)
            await asyncio.sleep(0.005)

    held = reach(pair.tap, stage)
    storing = asyncio.create_task(store())
    newest = mint(provisioned_cluster)
    renewal = asyncio.create_task(pair.bus.use_credential(newest))
    await held.wait()
    pair.tap.talks[1 if stage == "leaving" else 0].cut()
    held.go()
    async with asyncio.timeout(15):
        await renewal
    await until(lambda: pair.bus.connected)
    count = len(stored)
    await until(lambda: len(stored) > count)
    done.set()
    await storing

    assert await kept(pair.other, tenant) == dict.fromkeys(stored, 1)
    pair.heard["out"].clear()
    await pair.check()
    assert pair.lost == 1
    assert newest.jwt.encode() in pair.tap.talks[-1].said


async def test_a_renewal_while_the_former_credential_is_just_shown_is_no_renewal_yet(
    pair: Pair, provisioned_cluster: Cluster
) -> None:
    """A reconnect had said who we are before the newer one came: it is shown by a move behind that."""
    held = pair.tap.hold(2, "down", PONG)
    pair.tap.talks[0].cut()
    await held.wait()
    newest = mint(provisioned_cluster)
    renewal = asyncio.create_task(pair.bus.use_credential(newest))
    await asyncio.sleep(0)
    held.go()
    async with asyncio.timeout(15):
        await renewal

    await pair.check()
    assert newest.jwt.encode() in pair.tap.talks[-1].said
    assert pair.lost == 1


@pytest.mark.parametrize("stage", ["introduced", "asked", "answered", "leaving"])
async def test_a_close_in_the_middle_of_a_move_sends_what_was_taken_and_ends_both(
    stage: str, pair: Pair, provisioned_cluster: Cluster
) -> None:
    """Whoever renews is told at once; no connection and no task stays."""
    before = asyncio.all_tasks()
    held = reach(pair.tap, stage)
    renewal = renew(pair, provisioned_cluster)
    await held.wait()
    await pair.say()
    async with asyncio.timeout(15):
        await pair.bus.close()
    async with asyncio.timeout(15):
        if stage == "leaving":
            await asyncio.wait({renewal})  # it had gone over: either is true
        else:
            with pytest.raises(Unavailable):
                await renewal
    assert renewal.done()

    held.go()
    await until(lambda: not pair.wrong())
    await until(lambda: pair.tap.open == 0)
    with pytest.raises(Unavailable):
        async with asyncio.timeout(15):
            await pair.bus.use_credential(mint(provisioned_cluster))
    await until(lambda: not asyncio.all_tasks() - before - pair.tap.serving)


@pytest.mark.parametrize("stage", ["introduced", "asked", "answered", "leaving"])
async def test_a_move_whose_caller_is_cancelled_comes_to_its_end(
    stage: str, pair: Pair, provisioned_cluster: Cluster
) -> None:
    """Nothing is lost either way, nothing comes twice, one connection stays, and the next renewal works."""
    held = reach(pair.tap, stage)
    renewal = renew(pair, provisioned_cluster)
    await held.wait()
    await pair.say()
    await pair.tell()
    renewal.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(15):
            await renewal
    await pair.say()
    held.go()

    await pair.check()
    newest = mint(provisioned_cluster)
    await pair.bus.use_credential(newest)
    await pair.check()
    assert newest.jwt.encode() in pair.tap.talks[-1].said
    assert pair.lost == 0
