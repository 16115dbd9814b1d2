"""Credentials of a connection: renewed, expired, from a file."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from uuid import uuid4

import nats
import pytest

from shared import identity, subjects
from shared.bus import Bus, BusOptions, Message
from shared.bus.renewal import follow_file
from shared.cluster import Cluster
from shared.errors import Forbidden
from shared.identity import roles
from shared.testing.names import unique
from shared.testing.plugin import Connect
from shared.testing.wait import until


async def test_a_credential_is_renewed_before_it_ends(provisioned_cluster: Cluster) -> None:
    """Without a gap; subscriptions stay; the old credential's end changes nothing."""
    signer = provisioned_cluster.identity.signer
    old = signer.mint("short", roles.admin(), expires_s=2)
    bus = await Bus.connect(
        BusOptions(servers=provisioned_cluster.urls, name="short", credential=old)
    )
    subject = unique("renew")
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    await bus.subscribe(subject, lambda message: heard.put_nowait(message.data))
    lost = asyncio.Event()
    bus.on_lost = lost.set
    await bus.use_credential(signer.mint("short", roles.admin(), expires_s=60))
    await asyncio.sleep(2.5)  # past the end of the first one: the thing under test is time itself
    assert not lost.is_set()
    await bus.publish(subject, b"still here")
    async with asyncio.timeout(15):
        assert await heard.get() == b"still here"
    await bus.close()


async def test_what_is_under_way_survives_a_renewal(provisioned_cluster: Cluster) -> None:
    """A pull that waits, a request without an answer yet, what was just published: nothing is lost or asked again."""
    signer = provisioned_cluster.identity.signer
    bus, other = [
        await Bus.connect(
            BusOptions(
                servers=provisioned_cluster.urls,
                name=name,
                credential=signer.mint(name, roles.admin()),
            )
        )
        for name in ("renewed", "other")
    ]
    subject, tenant = unique("renew"), unique("t")
    asked: asyncio.Queue[Message] = asyncio.Queue()
    heard: list[int] = []
    await other.subscribe(f"{subject}.ask", asked.put_nowait)
    await other.subscribe(f"{subject}.said", lambda message: heard.append(int(message.data)))

    async def is_heard() -> bool:  # the other servers learn of the subscriptions a moment later
        await bus.publish(f"{subject}.said", b"-1")
        return bool(heard)

    await until(is_heard)
    pull = asyncio.create_task(bus.pull("Q0", "default-recovery", expires_s=5))
    ask = asyncio.create_task(bus.request(f"{subject}.ask", timeout_s=5))
    question = await asked.get()
    for number in range(50):
        await bus.publish(f"{subject}.said", str(number).encode())
        if number % 10 == 0:
            await bus.use_credential(signer.mint("renewed", roles.admin(), expires_s=60))
    lane = subjects.queue(0, tenant, "default", "recovery")
    await other.publish_acked(lane, b"task", message_id=uuid4().hex)
    await other.publish(question.reply, b"answer")

    delivery = await pull
    assert delivery is not None
    assert delivery.subject == lane
    await delivery.ack()
    assert (await ask).data == b"answer"
    await until(lambda: [number for number in heard if number >= 0] == list(range(50)))
    await bus.close()
    await other.close()


async def test_a_renewal_while_a_group_is_left_brings_no_interest_back(
    provisioned_cluster: Cluster, connect: Connect
) -> None:
    """Else the server would go on to hand this member its share of the group's messages, and nobody would hear them."""
    signer = provisioned_cluster.identity.signer
    leaver, stayer = [await connect(name=name) for name in ("leaver", "stayer")]
    subject, heard = unique("bell"), list[int]()
    busy, free = asyncio.Event(), asyncio.Event()

    async def work(_message: Message) -> None:
        busy.set()
        await free.wait()

    leaving = await leaver.subscribe(subject, work, queue="idle")
    await leaver.publish(subject, b"the last one")
    await busy.wait()
    drained = asyncio.create_task(leaving.drain(deadline_s=10))
    await leaver.probe(timeout_s=5)
    await leaver.use_credential(signer.mint("leaver", roles.admin(), expires_s=60))
    free.set()
    await drained
    await stayer.subscribe(subject, lambda message: heard.append(int(message.data)), queue="idle")

    async def is_heard() -> bool:  # another server learns of the subscription a moment later
        await leaver.publish(subject, b"-1")
        return bool(heard)

    await until(is_heard)
    for number in range(32):
        await leaver.publish(subject, str(number).encode())

    await until(lambda: 31 in heard)
    assert [number for number in heard if number >= 0] == list(range(32))


async def test_a_refused_renewal_is_mended_by_the_next(provisioned_cluster: Cluster) -> None:
    """It says so, and the present connection goes on; under a good credential all is heard."""
    signer = provisioned_cluster.identity.signer
    bus = await Bus.connect(
        BusOptions(
            servers=provisioned_cluster.urls, name="r", credential=signer.mint("r", roles.admin())
        )
    )
    subject = unique("renew")
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    await bus.subscribe(subject, lambda message: heard.put_nowait(message.data))
    lost = asyncio.Event()
    bus.on_lost = lost.set
    stranger = identity.make_identity().signer.mint("r", roles.admin())
    with pytest.raises(Forbidden):
        await bus.use_credential(stranger)
    await bus.use_credential(signer.mint("r", roles.admin()))

    assert not lost.is_set()
    await bus.publish(subject, b"back")
    async with asyncio.timeout(15):
        assert await heard.get() == b"back"
    await bus.close()


async def test_an_expired_credential_does_not_close_for_good(provisioned_cluster: Cluster) -> None:
    """The newest credential is asked for at each connect; with a good one the connection is back."""
    signer = provisioned_cluster.identity.signer
    credentials = [signer.mint("short", roles.admin(), expires_s=2)]
    bus = await Bus.connect(
        BusOptions(
            servers=provisioned_cluster.urls, name="short", credential=lambda: credentials[-1]
        )
    )
    lost, restored = asyncio.Event(), asyncio.Event()
    bus.on_lost, bus.on_restored = lost.set, restored.set
    async with asyncio.timeout(10):
        await lost.wait()
    credentials.append(signer.mint("short", roles.admin()))
    async with asyncio.timeout(10):
        await restored.wait()
    await bus.js_api("INFO")
    await bus.close()


async def test_a_service_goes_on_under_what_its_file_holds(
    provisioned_cluster: Cluster, tmp_path: Path
) -> None:
    """Written anew in time, the connection outlives every credential that it was made under."""
    signer = provisioned_cluster.identity.signer
    path = tmp_path / "service.creds"

    def write() -> int:
        minted = signer.mint("service", roles.admin(), expires_s=3)
        identity.write_credential(path, minted)
        return int(identity.read_claims(minted.jwt)["exp"])

    ends = [write()]
    bus = await Bus.connect(
        BusOptions(
            servers=provisioned_cluster.urls,
            name="service",
            credential=lambda: identity.read_credential(path),
        )
    )
    lost = asyncio.Event()
    bus.on_lost = lost.set
    following = asyncio.create_task(follow_file(bus, path))
    while time.time() < ends[0] + 2:  # the thing under test is time itself
        await asyncio.sleep(1)
        ends.append(write())
    assert not lost.is_set()
    await bus.js_api("INFO")
    following.cancel()
    await bus.close()


async def test_a_credential_file_serves_other_clients(
    provisioned_cluster: Cluster, tmp_path: Path
) -> None:
    """The NATS library itself connects with the file that we write."""
    path = tmp_path / "admin.creds"
    identity.write_credential(
        path, provisioned_cluster.identity.signer.mint("other", roles.admin())
    )
    assert path.stat().st_mode & 0o777 == 0o600
    again = identity.read_credential(path)
    bus = await Bus.connect(
        BusOptions(servers=provisioned_cluster.urls, name="file", credential=again)
    )
    await bus.close()
    client = await nats.connect(list(provisioned_cluster.urls), user_credentials=str(path))
    assert client.is_connected
    await client.close()
