"""Credentials that are renewed again and again under load, on connections as services and workers have them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from shared import subjects
from shared.bus import Bus, BusOptions, Delivery, Message
from shared.cluster import Cluster
from shared.errors import ServiceError
from shared.identity import roles
from shared.messages import Credential
from shared.testing.names import unique
from shared.testing.tap import tapped
from shared.testing.wait import until

RENEWALS = 40
RENEWALS_SPREAD = 6
"""Where each leads to another server: the others must learn of it."""
TRAFFIC_MIN = 40
"""Of each kind of message: on a busy machine it takes some more renewals."""
STEP_S = 0.002
BELL = subjects.bell("default", "interactive", 1)
"""Of a lane into which nothing is put here."""

Renew = Callable[[], Credential]


class Traffic:
    """What goes to and from one connection; every message has a number."""

    def __init__(self, bus: Bus, others: list[Bus], name: str) -> None:
        """Let `bus`, whose name is `name`, talk with `others`, one at each server."""
        self.bus, self.others, self.name = bus, others, name
        self.tenant = unique("t")
        self.sent: Counter[str] = Counter()
        self.heard: dict[str, Counter[int]] = {}
        self.failed: list[str] = []
        self._done = asyncio.Event()

    def hear(self, kind: str) -> Callable[[Message], None]:
        """Return a handler that counts."""
        heard = self.heard.setdefault(kind, Counter())
        return lambda message: heard.update((int(message.data),))

    async def begin(self) -> None:
        """Subscribe; when this returns, all servers know it."""
        out, wake = self.out, subjects.wake(self.tenant, "s")
        for number, other in enumerate(self.others):
            await other.subscribe(out, self.hear(f"out at server {number}"))
        answerer = self.others[-1]

        async def answer(message: Message) -> None:
            await answerer.publish(message.reply, message.data)

        await answerer.subscribe(subjects.renew("default", self.name), answer)
        await self.bus.subscribe(wake, self.hear("wake"))
        await self.bus.subscribe(BELL, self.hear("bell"), queue=self.tenant)
        await answerer.subscribe(BELL, self.hear("bell"), queue=self.tenant)

        async def is_known() -> bool:
            for other in self.others:
                await other.publish(wake, b"-1")
                await self.bus.publish(out, b"-1")
            await other.publish(BELL, b"-1")
            return all(counted[-1] >= 3 for counted in self.heard.values())

        await until(is_known)

    @property
    def out(self) -> str:
        """Where the connection under test publishes."""
        return subjects.output(self.tenant, "s", "t")

    async def say(self) -> None:
        """Publish without an end, from both ends."""
        wake = subjects.wake(self.tenant, "s")
        while not self._done.is_set():
            try:
                await self.bus.publish(self.out, str(self._next("out")).encode())
                other = self.others[self.sent["out"] % len(self.others)]
                await other.publish(wake, str(self._next("wake")).encode())
                await other.publish(BELL, str(self._next("bell")).encode())
            except ServiceError as exc:
                self.failed.append(f"publish: {exc}")
            await asyncio.sleep(STEP_S)

    async def ask(self) -> None:
        """Ask without an end, one question after the other."""
        while not self._done.is_set():
            number = str(self._next("asked")).encode()
            try:
                answer = await self.bus.request(
                    subjects.renew("default", self.name), number, timeout_s=2
                )
                assert answer.data == number
            except ServiceError as exc:
                self.failed.append(f"request: {exc}")
            await asyncio.sleep(0)

    async def pull(self) -> None:
        """Take and acknowledge what another puts into a lane."""
        while not self._done.is_set():
            number = self._next("pulled")
            try:
                await self.others[0].publish_acked(
                    subjects.queue(0, self.tenant, "default", "batch"),
                    str(number).encode(),
                    message_id=f"{self.tenant}-{number}",
                )
                delivery = await self.take()
                assert delivery.data == str(number).encode()
                await delivery.ack()
            except ServiceError as exc:
                self.failed.append(f"pull: {exc}")

    async def take(self) -> Delivery:
        """Take the next message of this test's own: another may have left some in the lane."""
        while True:
            delivery = await self.bus.pull("Q0", "default-batch", expires_s=2)
            if delivery is None:
                self.failed.append("pull: nothing came")
            elif self.tenant in delivery.subject.split("."):
                return delivery
            else:
                await delivery.ack()

    def end(self) -> None:
        """Let all come to their ends."""
        self._done.set()

    def _next(self, kind: str) -> int:
        self.sent[kind] += 1
        return self.sent[kind] - 1

    def wrong(self) -> dict[str, list[int]]:
        """Return, for each kind, what was not heard exactly once."""
        found = {}
        for kind, heard in self.heard.items():
            numbers = range(self.sent[kind.split()[0]])
            if odd := [number for number in numbers if heard[number] != 1]:
                found[kind] = odd
        return found


@pytest.fixture
async def others(provisioned_cluster: Cluster) -> AsyncIterator[list[Bus]]:
    """A connection to each server."""
    made = []
    for number, url in enumerate(provisioned_cluster.urls):
        credential = provisioned_cluster.identity.signer.mint(f"other-{number}", roles.admin())
        options = BusOptions(servers=(url,), name=f"other-{number}", credential=credential)
        made.append(await Bus.connect(options))
    yield made
    for bus in made:
        await bus.close()


@pytest.fixture(params=["worker", "service", "spread"])
async def renewed(
    request: pytest.FixtureRequest, provisioned_cluster: Cluster
) -> AsyncIterator[tuple[Bus, Renew]]:
    """A connection of that kind, and what mints its next credential. Spread: each leads to another server."""
    identity, name = provisioned_cluster.identity, unique("w")
    servers = provisioned_cluster.urls
    if request.param == "worker":
        first = identity.worker_signer.mint("default", name, valid_s=60)

        def renew() -> Credential:
            jwt = identity.worker_signer.renew(first.jwt, "default", name, valid_s=60)
            return Credential(jwt=jwt, seed=first.seed)
    else:

        def renew() -> Credential:
            return identity.signer.mint(name, roles.admin(), expires_s=60)

        first = renew()
    async with tapped([servers[number % 3] for number in range(RENEWALS_SPREAD + 1)]) as tap:
        if request.param == "spread":
            servers = (tap.url,)
        bus = await Bus.connect(BusOptions(servers=servers, name=name, credential=first))
        yield bus, renew
        await bus.close()


async def test_nothing_is_lost_either_way_while_a_credential_is_renewed_again_and_again(
    renewed: tuple[Bus, Renew], others: list[Bus]
) -> None:
    """Publishes, what is heard (by all, or by a group's member), questions, pulls, acks: each once, none fails."""
    bus, renew = renewed
    lost: list[str] = []
    bus.on_lost = lambda: lost.append("lost")
    traffic = Traffic(bus, others, bus.options.name)
    await traffic.begin()
    talking = [asyncio.create_task(each) for each in (traffic.say(), traffic.ask(), traffic.pull())]

    renewals = 0
    wanted = RENEWALS if len(bus.options.servers) > 1 else RENEWALS_SPREAD
    while renewals < wanted or min(traffic.sent.values()) < TRAFFIC_MIN:
        await bus.use_credential(renew())
        renewals += 1
        await asyncio.sleep(STEP_S)
    traffic.end()
    await asyncio.gather(*talking)

    await until(lambda: not traffic.wrong())
    assert traffic.failed == []
    assert lost == []
    assert bus.refusals == ()
