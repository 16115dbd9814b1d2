"""A renewal goes over to a second connection, and something happens at a chosen word of that: the servers are well."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest

from shared import subjects
from shared.bus import Bus, BusOptions, Message
from shared.cluster import Cluster
from shared.errors import OutcomeUnknown, Unavailable
from shared.identity import roles
from shared.messages import Credential
from shared.testing.names import unique
from shared.testing.plugin import Connect
from shared.testing.tap import Stage, Tap, tapped
from shared.testing.wait import until

PING, PONG = b"PING\r\n", b"PONG\r\n"
BUFFER_BYTES = 1024 * 1024
PIECE = b"x" * 32 * 1024


def reach(tap: Tap, stage: str) -> Stage:
    """Hold the next move of the first connection: `asked` holds what the client says, the others what is answered."""
    match stage:
        case "introduced":  # the server has taken the second connection
            return tap.hold(2, "down", PONG)
        case "asked":  # the second one hears everything; the ping behind that is on its way
            return tap.hold(2, "up", PING, 2)
        case "answered":  # all is taken; only the answer on the second one is missing
            return tap.hold(2, "down", PONG, 2)
        case _:  # "leaving": all goes by the second one, and the first is being left
            return tap.hold(1, "up", b"UNSUB")


class Pair:
    """A bus behind a tap, and another that it talks with; each message has a number."""

    def __init__(self, bus: Bus, other: Bus, tap: Tap) -> None:
        """Use the fixture."""
        self.bus, self.other, self.tap = bus, other, tap
        self.lost = 0
        self.heard: dict[str, Counter[int]] = {
            "out": Counter(),
            "in": Counter(),
            "shared": Counter(),
        }
        self._said = self._told = 0
        self._subject = unique("move")
        bus.on_lost = self._on_lost

    def _on_lost(self) -> None:
        self.lost += 1

    async def begin(self) -> None:
        """Subscribe."""
        for kind, hears, group in (
            ("out", self.other, ""),
            ("in", self.bus, ""),
            ("shared", self.bus, "group"),
            ("shared", self.other, "group"),
        ):
            await hears.subscribe(f"{self._subject}.{kind}", self._count(kind), queue=group)

    def _count(self, kind: str) -> Callable[[Message], None]:
        return lambda message: self.heard[kind].update((int(message.data),))

    async def say(self, count: int = 10) -> None:
        """Publish from the bus: all of it is taken."""
        for _ in range(count):
            await self.bus.publish(f"{self._subject}.out", str(self._said).encode())
            self._said += 1

    async def tell(self, count: int = 20) -> None:
        """Publish to the bus, to it alone and to the group; when this returns, the server has handed it on."""
        for _ in range(count):
            for kind in ("in", "shared"):
                await self.other.publish(f"{self._subject}.{kind}", str(self._told).encode())
            self._told += 1
        assert await self.other.probe(timeout_s=5)

    def wrong(self) -> dict[str, dict[int, int]]:
        """Return what was not heard exactly once, and how often it was."""
        sent = {"out": self._said, "in": self._told, "shared": self._told}
        return {
            kind: odd
            for kind, heard in self.heard.items()
            if (odd := {n: heard[n] for n in range(sent[kind]) if heard[n] != 1})
        }

    async def check(self) -> None:
        """See that all came once, and that the connection works in both ways and is the only one."""
        await self.say()
        await self.tell()
        with suppress(TimeoutError):
            await until(lambda: not self.wrong())
        assert self.wrong() == {}
        await until(lambda: self.tap.open == 1)
        assert self.wrong() == {}


@pytest.fixture
async def tap(provisioned_cluster: Cluster) -> AsyncIterator[Tap]:
    """A way to one server."""
    async with tapped(provisioned_cluster.urls[:1]) as made:
        yield made


@pytest.fixture
async def pair(tap: Tap, provisioned_cluster: Cluster, connect: Connect) -> AsyncIterator[Pair]:
    """The bus under test behind the tap, and another at the same server. Pings come from renewals only."""
    other = await connect(name="other", servers=(provisioned_cluster.servers[0].url,))
    bus = await Bus.connect(
        BusOptions(
            servers=(tap.url,),
            name="moves",
            credential=mint(provisioned_cluster),
            ping_interval_s=60,
            pending_bytes_max=BUFFER_BYTES,
        )
    )
    made = Pair(bus, other, tap)
    await made.begin()
    yield made
    await bus.close()


def mint(cluster: Cluster) -> Credential:
    """Return another credential of the bus."""
    return cluster.identity.signer.mint("moves", roles.admin(), expires_s=600)


def renew(pair: Pair, cluster: Cluster) -> asyncio.Task[None]:
    """Begin a renewal."""
    return asyncio.create_task(pair.bus.use_credential(mint(cluster)))


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
    if fault == "cut":
        pair.tap.talks[1].cut()
    async with asyncio.timeout(5):
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
    async with asyncio.timeout(5):
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
    async with asyncio.timeout(8):
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


async def kept(bus: Bus, tenant: str) -> dict[str, int]:
    """Return the bodies of a tenant's messages in the stream, and how often each is there."""
    found, after = Counter[str](), 0
    while one := await bus.read_next("Q0", f"q.*.{tenant}.>", after_seq=after, timeout_s=5):
        found[one.data.decode()] += 1
        after = one.seq
    return dict(found)


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
    async with asyncio.timeout(5):
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
    async with asyncio.timeout(1.5):
        await pair.bus.close()
    async with asyncio.timeout(0.5):
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
        async with asyncio.timeout(0.5):
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
        async with asyncio.timeout(0.5):
            await renewal
    await pair.say()
    held.go()

    await pair.check()
    newest = mint(provisioned_cluster)
    await pair.bus.use_credential(newest)
    await pair.check()
    assert newest.jwt.encode() in pair.tap.talks[-1].said
    assert pair.lost == 0


async def test_a_move_with_much_unsent_holds_nothing_and_makes_no_more_room(
    pair: Pair, provisioned_cluster: Cluster
) -> None:
    """It waits until the server takes it; the bound of what is unsent stays what it was; all of it arrives."""
    link, big = pair.bus._link, unique("big")
    arrived: list[int] = []
    await pair.other.subscribe(big, lambda message: arrived.append(len(message.data)))
    held = pair.tap.hold(1, "up", b"PUB")
    sent = [0]

    async def fill() -> None:
        with suppress(Unavailable):
            while True:
                link.client.send(big, PIECE)
                sent[0] += 1
                await asyncio.sleep(0)

    await fill()
    await fill()  # what the socket did not take
    full = sent[0]
    renewal = renew(pair, provisioned_cluster)
    await until(lambda: len(pair.tap.talks) == 3)  # the first try is over
    await fill()
    more = (sent[0] - full) * len(PIECE)
    held.go()
    with suppress(Unavailable):
        await renewal

    await until(lambda: len(arrived) == sent[0])
    assert more < BUFFER_BYTES // 2
    await pair.check()
    assert pair.lost == 0


async def test_a_slow_handler_gets_all_that_came_while_both_connections_hear(
    pair: Pair, provisioned_cluster: Cluster
) -> None:
    """Its queue holds each message once: what comes twice does not take the place of others."""
    free, subject = asyncio.Event(), unique("slow")
    got: Counter[bytes] = Counter()

    async def work(message: Message) -> None:
        await free.wait()
        got[message.data] += 1

    slow = await pair.bus.subscribe(subject, work, pending_max=120)
    held = reach(pair.tap, "leaving")
    renewal = renew(pair, provisioned_cluster)
    await held.wait()
    for number in range(100):
        await pair.other.publish(subject, str(number).encode())
    await pair.tell()
    held.go()
    await renewal
    free.set()

    await until(lambda: len(got) == 100)
    await pair.check()
    assert set(got.values()) == {1}
    assert slow.dropped == 0


async def test_acks_around_a_move_are_taken(pair: Pair, provisioned_cluster: Cluster) -> None:
    """Sent before, held and gone back to the first, held and gone over, sent while the first is left: none is lost."""
    lane, tenant = ("Q0", "other-batch"), unique("t")
    while (old := await pair.bus.pull(*lane, expires_s=0)) is not None:  # another test's
        await old.ack()
    for number in range(40):
        last = await pair.other.publish_acked(
            subjects.queue(0, tenant, "other", "batch"),
            b"",
            message_id=f"{tenant}-{number}",
        )
    taken = [await pair.bus.pull(*lane, expires_s=2) for _ in range(40)]
    acks = iter(taken)

    async def ack(count: int) -> None:
        for _ in range(count):
            delivery = next(acks)
            assert delivery is not None
            await delivery.ack()

    await ack(10)
    answered = [pair.tap.hold(number, "down", PONG, 2) for number in (2, 3)]
    renewal = renew(pair, provisioned_cluster)
    await answered[0].wait()
    await ack(10)
    pair.tap.talks[1].cut()
    await answered[1].wait()
    await ack(10)
    leaving = pair.tap.hold(1, "up", b"UNSUB")
    answered[1].go()
    await leaving.wait()
    await ack(10)
    leaving.go()
    await renewal

    async def is_settled() -> bool:
        info = await pair.other.js_api("CONSUMER.INFO.Q0.other-batch")
        return (
            info["num_ack_pending"] == 0
            and info["ack_floor"]["stream_seq"] == info["delivered"]["stream_seq"] >= last.seq
        )

    await until(is_settled)
    assert pair.lost == 0


async def test_an_answer_to_what_only_the_left_connection_heard_is_refused_and_comes_when_asked_again(
    tap: Tap, provisioned_cluster: Cluster, connect: Connect
) -> None:
    """The right to answer stays with the connection that heard: the first asker knows nothing, and asks again."""
    identity, name = provisioned_cluster.identity, unique("w")
    first = identity.worker_signer.mint("default", name, valid_s=600)
    manager = await connect(roles.pool_manager("m1"), name="m1")
    worker = await Bus.connect(BusOptions(servers=(tap.url,), name=name, credential=first))
    moved = asyncio.Event()

    async def answer(message: Message) -> None:
        await moved.wait()
        await worker.publish(message.reply, message.data)

    await worker.subscribe(subjects.control(name), answer)
    held = reach(tap, "introduced")
    jwt = identity.worker_signer.renew(first.jwt, "default", name, valid_s=600)
    renewal = asyncio.create_task(worker.use_credential(Credential(jwt=jwt, seed=first.seed)))
    await held.wait()
    asked = asyncio.create_task(manager.request(subjects.control(name), b"1", timeout_s=2))
    await asyncio.sleep(0.1)  # the order is heard: nothing tells when
    held.go()
    await renewal
    moved.set()
    with pytest.raises(OutcomeUnknown):
        await asked

    again = await manager.request(subjects.control(name), b"2", timeout_s=2)
    assert again.data == b"2"
    assert len(worker.refusals) == 1
    await worker.close()
