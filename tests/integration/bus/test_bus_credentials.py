"""Credentials of a connection: renewed, expired, from a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats

from shared import identity
from shared.bus import Bus, BusOptions
from shared.cluster import Cluster
from shared.identity import roles
from shared.testing.names import unique


async def test_a_credential_is_renewed_before_it_ends(provisioned_cluster: Cluster) -> None:
    """One reconnect; subscriptions stay; the old credential's end changes nothing."""
    signer = provisioned_cluster.identity.signer
    old = signer.mint("short", roles.admin(), expires_s=2)
    bus = await Bus.connect(
        BusOptions(servers=provisioned_cluster.urls, name="short", credential=old)
    )
    subject = unique("renew")
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    await bus.subscribe(subject, lambda message: heard.put_nowait(message.data))
    await bus.use_credential(signer.mint("short", roles.admin(), expires_s=60))
    lost = asyncio.Event()
    bus.on_lost = lost.set
    await asyncio.sleep(2.5)  # past the end of the first one: the thing under test is time itself
    assert not lost.is_set()
    await bus.publish(subject, b"still here")
    async with asyncio.timeout(5):
        assert await heard.get() == b"still here"
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
