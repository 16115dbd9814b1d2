"""Creating and verifying the topology on real servers."""

from __future__ import annotations

import asyncio

import pytest

from shared.bus import Bus, leaders
from shared.bus.provision import provision
from shared.cluster import Cluster
from shared.errors import Unavailable
from shared.identity import roles
from shared.pools import PoolSpec
from shared.testing.asking import forbidden
from shared.testing.plugin import POOLS, Connect, declared, server_of
from shared.topology import topology


async def test_what_exists_as_declared_has_no_drift(admin_bus: Bus) -> None:
    """A second run, at another time, finds nothing to do."""
    assert await provision(admin_bus, declared()) == []


async def test_a_provisioner_makes_changes_and_places_and_nothing_else(
    private_cluster: Cluster, connect: Connect
) -> None:
    """It reads no message, and removes neither one nor a stream."""
    admin = await connect(cluster=private_cluster)
    await admin.js_api("STREAM.DELETE.Q0")
    bus = await connect(roles.provisioner(), name="provisioner", cluster=private_cluster)
    wider = topology((*POOLS, PoolSpec(name="new")), created_ms=1)
    assert await provision(bus, wider, update=True, place_leaders=True) == []
    assert bus.refusals == ()
    await forbidden(
        bus.read_last("0", "s.>"),
        bus.js_api("DIRECT.GET.0", {"seq": 1}),
        bus.js_api("STREAM.PURGE.0", {}),
        bus.js_api("STREAM.DELETE.0"),
        bus.js_api("STREAM.MSG.DELETE.0", {"seq": 1}),
        bus.js_api("STREAM.SNAPSHOT.0", {}),
        bus.pull("Q0", "default-batch"),
        bus.js_api("CONSUMER.DELETE.Q0.default-batch"),
        bus.publish_acked("q.0.t.default.batch", b"{}", message_id="new00001"),
    )


async def test_every_shard_leads_on_a_server_of_its_own(admin_bus: Bus) -> None:
    """Streams and consumers alike."""
    await leaders.place(admin_bus, declared())
    found = {}
    for led in leaders.all_led(declared()):
        info = await admin_bus.js_api(f"{leaders.kind_of(led.path)}.INFO.{led.path}")
        found[led.path] = info["cluster"]["leader"]
    assert found == {led.path: f"n{led.server + 1}" for led in leaders.all_led(declared())}


async def test_drift_is_named_field_by_field_and_mended_on_request(
    private_cluster: Cluster, connect: Connect
) -> None:
    """A changed limit, a missing pool, and a feature that nobody declared."""
    bus = await connect(cluster=private_cluster)
    config = (await bus.js_api("STREAM.INFO.Q1"))["config"]
    await bus.js_api(
        "STREAM.UPDATE.Q1", {**config, "max_msgs_per_subject": 5, "allow_msg_ttl": True}
    )
    consumer = (await bus.js_api("CONSUMER.INFO.Q2.default-batch"))["config"]
    await bus.js_api(
        f"CONSUMER.CREATE.Q2.default-batch.{consumer['filter_subject']}",
        {
            "stream_name": "Q2",
            "config": {**consumer, "ack_wait": 9_000_000_000},
            "action": "update",
        },
    )
    drift = await provision(bus, declared())
    assert {(d.kind, d.name, d.field, d.found) for d in drift} == {
        ("stream", "Q1", "max_msgs_per_subject", 5),
        ("stream", "Q1", "allow_msg_ttl", True),
        ("consumer", "Q2/default-batch", "ack_wait", 9_000_000_000),
    }
    # What is only named stays; what a server cannot take back stays named.
    left = await provision(bus, declared(), update=True)
    assert {d.field for d in left} <= {"allow_msg_ttl"}


async def test_a_pool_more_gets_its_lanes(private_cluster: Cluster, connect: Connect) -> None:
    """The queue streams are widened, the messages in them stay."""
    bus = await connect(cluster=private_cluster)
    kept = await bus.publish_acked("task.t.default.batch", b"{}", message_id="kept0001")
    wider = topology((*POOLS, PoolSpec(name="new")), created_ms=1)
    assert {d.field for d in await provision(bus, topology(POOLS, created_ms=1))} == set()
    assert await provision(bus, wider, update=True) == []
    await bus.publish_acked("task.t.new.batch", b"{}", message_id="new00001")
    assert (
        await bus.read_next(kept.stream, "q.*.t.default.batch", after_seq=kept.seq - 1) is not None
    )


@pytest.mark.slow
async def test_several_provisioners_at_once_agree(
    nats_cluster: Cluster, private_cluster: Cluster, connect: Connect
) -> None:
    """Each started service may run it: one creates, the others find it done."""
    buses = [await connect(cluster=private_cluster) for _ in range(3)]
    wider = topology((*POOLS, PoolSpec(name="race")), created_ms=1)
    for stream in ("0", "I1", "Q2", "OUT"):
        await buses[0].js_api(f"STREAM.DELETE.{stream}")
    results = await asyncio.gather(*(provision(bus, wider, update=True) for bus in buses))
    assert results == [[], [], []]


async def test_without_a_leader_it_ends_at_its_deadline(
    private_cluster: Cluster, connect: Connect
) -> None:
    """Unavailable: to be run again."""
    bus = await connect(cluster=private_cluster)
    keep = server_of(bus, private_cluster)
    for server in private_cluster.servers:
        if server is not keep:
            server.kill()
    with pytest.raises(Unavailable):
        await provision(bus, declared(), deadline_s=1.0)
