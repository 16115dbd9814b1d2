"""What a worker's credential can do on real servers, what it cannot, and who can mint one."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import pytest

from shared import subjects
from shared.bus import Message, Write
from shared.cluster import Cluster
from shared.errors import Forbidden
from shared.identity import Signer, roles
from shared.testing.asking import ask, forbidden
from shared.testing.plugin import Connect


async def test_a_worker_reaches_its_pool_and_no_other(connect_worker: Connect) -> None:
    """Its own lanes, records and heartbeat; no management of streams; nothing in the name of another worker."""
    worker = await connect_worker("default", "w1")
    session = uuid4().hex
    assert await worker.pull("Q1", "default-recovery", expires_s=0.01) is None
    await worker.batch(
        [
            Write(subjects.payload("default", "t", session), b"", 0),
            Write(subjects.record("default", "t", session), b"", 0),
        ]
    )
    await worker.publish(subjects.heartbeat("default", "w1"), b"")
    await worker.publish(subjects.bell("default", "batch", 0), b"")
    await worker.publish(subjects.renew("default", "w1"), b"")
    await worker.publish(subjects.checkpoint("node-7", "w1"), b"")
    await worker.subscribe(subjects.control("w1"), lambda _message: None)
    assert await worker.read_next("I0", "in.0.*.*.*", after_seq=2**50) is None
    assert worker.refusals == ()
    await forbidden(
        worker.pull("Q0", "other-batch"),
        worker.pull("Q0", "otherdefault-batch"),
        worker.compare_and_set(subjects.record("other", "t", session), b"", expected_seq=0),
        worker.compare_and_set(subjects.payload("other", "t", session), b"", expected_seq=0),
        worker.request("$JS.ACK.Q0.other-batch.1.2.3.4.5", timeout_s=2),
        worker.publish_acked(subjects.dead_letter("t", "other"), b"", message_id=uuid4().hex),
        worker.request(subjects.bell("other", "batch", 0), timeout_s=2),
        worker.compare_and_set("slot.0.default.a", b"", expected_seq=0),
        worker.publish_acked("q.0.t.default.batch", b"", message_id=uuid4().hex),
        worker.publish_acked("in.0.t.a.b", b"", message_id=uuid4().hex),
        worker.read_last("Q0", "q.0.*.*.*"),
        worker.js_api("STREAM.INFO.0"),
        worker.js_api("STREAM.PURGE.I0", {}),
        worker.js_api("STREAM.DELETE.0"),
        worker.js_api("STREAM.CREATE.mine", {}),
        worker.js_api("STREAM.UPDATE.Q0", {}),
        worker.js_api("STREAM.NAMES", {}),
        worker.js_api("STREAM.MSG.DELETE.0", {"seq": 1}),
        worker.js_api("STREAM.LEADER.STEPDOWN.0"),
        worker.js_api("DIRECT.GET.0", {"seq": 1}),
        worker.js_api("CONSUMER.CREATE.Q0.mine", {}),
        worker.js_api("CONSUMER.DELETE.Q0.default-batch"),
        worker.request("node.n.create", timeout_s=2),
        worker.request(subjects.heartbeat("default", "w2"), timeout_s=2),
        worker.request(subjects.heartbeat("other", "w1"), timeout_s=2),
        worker.request(subjects.renew("default", "w2"), timeout_s=2),
        worker.request(subjects.checkpoint("node-7", "w2"), timeout_s=2),
        worker.request(subjects.rescue("node-7"), timeout_s=2),
        worker.request(subjects.any_checkpointer("delete"), timeout_s=2),
        worker.publish_acked(
            subjects.workspace_head("default", "t", session), b"", message_id=uuid4().hex
        ),
        worker.request(subjects.control("w2"), timeout_s=2),
        worker.request(subjects.gone("default", "w2"), timeout_s=2),
        worker.request(subjects.manager_heartbeat("m"), timeout_s=2),
        worker.subscribe("_INBOX_w2.>", lambda _message: None),
        worker.subscribe("renew.>", lambda _message: None),
        worker.subscribe("done.>", lambda _message: None),
        worker.subscribe("out.>", lambda _message: None),
        worker.subscribe("hb.>", lambda _message: None),
        worker.subscribe("ctl.w2", lambda _message: None),
        worker.subscribe(subjects.bells("other"), lambda _message: None),
        worker.subscribe("rec.>", lambda _message: None),
    )


async def test_the_workers_key_mints_workers_and_nobody_else(
    connect: Connect, provisioned_cluster: Cluster
) -> None:
    """Whoever steals a pool-manager's key can be any worker: no service, and no worker with more rights."""
    made = provisioned_cluster.identity
    stolen = Signer(made.account.public, made.worker_signing.seed)
    for name, permissions in (
        ("provisioner", roles.provisioner()),
        ("m1", roles.pool_manager("m1")),
        ("node1", roles.local_node("node1")),
        ("ckpt-node1", roles.checkpointer("node1")),
        ("admin", roles.admin()),
        ("w1", msgspec.structs.replace(roles.worker("default", "w1"), publish=None)),
    ):
        with pytest.raises(Forbidden):
            await connect(permissions, name=name, signer=stolen)
    for account, name in ((made.system, "watcher"), (made.clients, "client")):
        foreign = msgspec.structs.replace(stolen, account=account.public)
        with pytest.raises(Forbidden):
            await connect(roles.admin(), name=name, signer=foreign)


async def test_a_pool_of_wildcards_is_a_worker_still(connect_worker: Connect) -> None:
    """What a thief's token says of its pool goes into the servers' permissions as it stands: all pools, no more."""
    worker = await connect_worker(">", "w1")
    await forbidden(
        worker.js_api("STREAM.DELETE.0"),
        worker.js_api("CONSUMER.CREATE.Q0.mine", {}),
        worker.publish_acked("q.0.t.default.batch", b"", message_id=uuid4().hex),
        worker.request("node.n.create", timeout_s=2),
        worker.compare_and_set("slot.0.default.a", b"", expected_seq=0),
    )


async def test_a_worker_answers_a_request_to_it(connect: Connect, connect_worker: Connect) -> None:
    """Though the asker's inbox is not among its subjects."""
    worker = await connect_worker("default", "w1")
    manager = await connect(roles.pool_manager("m1"), name="m1")

    async def answer(message: Message) -> None:
        await worker.publish(message.reply, b"done")

    await worker.subscribe(subjects.control("w1"), answer)
    assert (await ask(manager, subjects.control("w1"))).data == b"done"
    assert worker.refusals == ()
