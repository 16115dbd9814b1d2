"""What each role can do on real servers, and above all what it cannot."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from shared import subjects
from shared.bus import Bus, Message
from shared.cluster import Cluster
from shared.errors import Unavailable
from shared.identity import roles
from shared.ids import home
from shared.testing.asking import ask, forbidden
from shared.testing.look import until
from shared.testing.names import unique
from shared.testing.plugin import Connect


async def test_a_reply_subject_cannot_reach_a_stream(
    connect_client: Connect, admin_bus: Bus, provisioned_cluster: Cluster
) -> None:
    """Servers and services answer wherever a request asks them to: a client's must stay on the clients' side."""
    session = uuid4().hex
    record = subjects.record("default", "victim", session)
    await admin_bus.compare_and_set(record, b"precious", expected_seq=0)

    async def answer(message: Message) -> None:
        await admin_bus.publish(message.reply, b"answer")

    await admin_bus.subscribe("ask.attacker.*", answer)
    attacker = await connect_client("attacker")
    await ask(attacker, subjects.ask("attacker", "pools"))
    for target in (
        record,
        subjects.queue(0, "victim", "default", "batch"),
        f"in.0.victim.{session}.task0001",
    ):
        await attacker.publish(
            subjects.task("attacker", "default", "batch"),
            b"{}",
            headers={"Nats-Msg-Id": uuid4().hex},
            reply=target,
        )
        await attacker.publish(
            subjects.session_task("attacker", session, uuid4().hex), b"{}", reply=target
        )
        await attacker.publish(subjects.result("attacker", session, "task0001"), b"", reply=target)
        await attacker.publish(subjects.ask("attacker", "pools"), b"", reply=target)
    await attacker.request(
        subjects.ask("attacker", "pools"), b"", timeout_s=5
    )  # all before it was handled
    stored = await admin_bus.read_last(str(home(session)), record)
    assert stored is not None
    assert stored.data == b"precious"
    assert await admin_bus.read_last("I0", f"in.0.victim.{session}.*") is None
    assert await admin_bus.read_last("Q0", subjects.queue(0, "victim", "default", "batch")) is None


async def test_a_client_reaches_nothing_but_its_tenant(connect_client: Connect) -> None:
    """No other tenant, no stream, no other class, no ear on the inside."""
    client = await connect_client("mine")
    message_id = uuid4().hex
    await forbidden(
        client.publish_acked("task.other.default.batch", b"", message_id=message_id),
        client.publish_acked("task.mine.default.recovery", b"", message_id=message_id),
        client.publish_acked("session.other.s.t", b"", message_id=message_id),
        client.read_result("other", "session1", "task0001"),
        client.request("cancel.other.s.t", timeout_s=2),
        client.request("ask.other.sessions", timeout_s=2),
        client.compare_and_set("s.0.rec.default.mine.session1", b"", expected_seq=0),
        client.read_last("0", "s.0.rec.default.mine.session1"),
        client.js_api("STREAM.INFO.Q0"),
        client.js_api("STREAM.PURGE.Q0", {}),
        client.js_api("DIRECT.GET.0", {"last_by_subj": "s.0.done.other.a.b"}),
        client.pull("Q0", "default-batch"),
        client.subscribe("done.other.>", lambda _message: None),
        client.subscribe("out.other.>", lambda _message: None),
        client.subscribe("_INBOX_c-other.>", lambda _message: None),
        client.subscribe("bell.>", lambda _message: None),
        client.subscribe("rec.>", lambda _message: None),
    )


async def test_a_client_of_some_pools_reaches_no_other(
    connect: Connect, provisioned_cluster: Cluster
) -> None:
    """A credential can be narrower than a tenant."""
    client = await connect(
        roles.publisher("mine", pools=("default",)),
        signer=provisioned_cluster.identity.client_signer,
    )
    await client.publish_acked("task.mine.default.batch", b"{}", message_id=uuid4().hex)
    await forbidden(client.publish_acked("task.mine.other.batch", b"{}", message_id=uuid4().hex))


async def test_a_client_hears_events_and_results_of_its_tenant(
    connect_client: Connect, connect_worker: Connect
) -> None:
    """Live output, and results at the moment they are stored."""
    tenant = unique("t")
    session = uuid4().hex
    client = await connect_client(tenant)
    worker = await connect_worker("default", "w1")
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    await client.subscribe(subjects.output(tenant, session), lambda m: heard.put_nowait(m.data))
    await client.subscribe(subjects.done(tenant, session), lambda m: heard.put_nowait(m.data))

    async def is_heard() -> bool:  # the worker's server learns of the subscriptions in its own time
        await worker.publish(subjects.output(tenant, session, "task0001"), b"line")
        await asyncio.sleep(0.05)
        return not heard.empty()

    await until(is_heard, within_s=15)
    await worker.compare_and_set(
        subjects.stored_result(tenant, session, "task0001"), b"result", expected_seq=0
    )
    async with asyncio.timeout(15):
        while (data := await heard.get()) != b"result":
            assert data == b"line"


async def test_a_pool_manager_serves_clients_and_nodes(
    connect: Connect, connect_client: Connect
) -> None:
    """It answers clients across the wall, and asks nodes."""
    manager = await connect(roles.pool_manager("m1"), name="m1")
    node = await connect(roles.local_node("node1"), name="node1")
    client = await connect_client("mine")

    async def answer_client(message: Message) -> None:
        created = await ask(manager, subjects.node_create("node1"), b"pod")
        await manager.publish(message.reply, created.data)

    async def answer_manager(message: Message) -> None:
        await node.publish(message.reply, b"created " + message.data)

    await manager.subscribe("ask.>", answer_client, queue=subjects.MANAGER_GROUP)
    await node.subscribe("node.node1.*", answer_manager)
    answer = await ask(client, subjects.ask("mine", "pools"))
    assert answer.data == b"created pod"
    await manager.subscribe("hbn.*", lambda _message: None)
    await node.publish(subjects.node_heartbeat("node1"), b"")
    await node.publish(subjects.gone("default", "pod1"), b"")
    assert manager.refusals == node.refusals == ()
    await forbidden(
        manager.js_api("STREAM.DELETE.0"),
        manager.js_api("STREAM.UPDATE.0", {}),
        manager.js_api("STREAM.PURGE.Q0", {}),
        manager.js_api("STREAM.MSG.DELETE.0", {"seq": 1}),
        manager.js_api("STREAM.PURGE.OUT", {}),
        manager.js_api("DIRECT.GET.O0.object.0.mine.object01.0"),
        node.subscribe("node.node2.*", lambda _message: None),
        node.request("hbn.node2", timeout_s=2),
        node.js_api("INFO"),
    )


async def test_a_new_pod_can_ask_for_its_credential_and_do_nothing_else(connect: Connect) -> None:
    """The credential that all pods share before they have their own is worth one question."""
    manager = await connect(roles.pool_manager("m1"), name="m1")
    pod = await connect(roles.enroller(), name=roles.ENROLLER)

    async def answer(message: Message) -> None:
        await manager.publish(message.reply, message.subject.encode())

    asked = subjects.enroll("default", "default-0-1")
    await manager.subscribe(subjects.enroll(), answer, queue=subjects.MANAGER_GROUP)
    assert (await ask(pod, asked)).data.decode() == asked
    assert pod.refusals == manager.refusals == ()
    await forbidden(
        pod.request(subjects.renew("default", "default-0-1"), timeout_s=2),
        pod.request(subjects.heartbeat("default", "default-0-1"), timeout_s=2),
        pod.request(subjects.task("t", "default", "batch"), timeout_s=2),
        pod.request("ask.t.pools", timeout_s=2),
        pod.compare_and_set("s.0.rec.default.t.s", b"", expected_seq=0),
        pod.js_api("INFO"),
        pod.pull("Q0", "default-batch"),
        pod.subscribe(subjects.enroll(), lambda _message: None),
        pod.subscribe("_INBOX_m1.>", lambda _message: None),
        pod.subscribe("hb.>", lambda _message: None),
        pod.subscribe("rec.>", lambda _message: None),
    )


async def test_a_checkpointer_serves_its_own_node(
    connect: Connect, connect_worker: Connect
) -> None:
    """Workers ask about their own pods, pool-managers for rescues; it hears no other node's requests, and no task."""
    checkpointer = await connect(roles.checkpointer("node1"), name="ckpt-node1")
    manager = await connect(roles.pool_manager("m1"), name="m1")
    worker = await connect_worker("default", "default-0-1")

    async def answer(message: Message) -> None:
        await checkpointer.publish(message.reply, message.subject.encode())

    await checkpointer.subscribe(subjects.checkpoint("node1", "*"), answer)
    mine, rescue = subjects.checkpoint("node1", "default-0-1"), subjects.rescue("node1")
    assert (await ask(worker, mine)).data.decode() == mine
    assert (await ask(manager, rescue)).data.decode() == rescue
    session = uuid4().hex
    head = subjects.workspace_head("default", "t", session)
    await checkpointer.publish(subjects.spans("default", "node1"), b"{}")
    assert await checkpointer.compare_and_set(head, b"{}", expected_seq=0)
    assert await checkpointer.read_last(str(home(session)), head)
    assert checkpointer.refusals == worker.refusals == manager.refusals == ()
    await forbidden(
        worker.request(subjects.checkpoint("node1", "default-0-2"), timeout_s=2),
        worker.request(rescue, timeout_s=2),
        worker.compare_and_set(head, b"{}", expected_seq=1),
        checkpointer.subscribe(subjects.checkpoint("node2", "*"), answer),
        checkpointer.subscribe("hb.>", answer),
        checkpointer.publish_acked("q.0.t.default.batch", b"", message_id=uuid4().hex),
        checkpointer.compare_and_set(
            subjects.stored_result("t", session, "task0001"), b"", expected_seq=0
        ),
        checkpointer.request(subjects.node_create("node1"), timeout_s=2),
        checkpointer.request(subjects.checkpointer_heartbeat("node2"), timeout_s=2),
        checkpointer.js_api("STREAM.PURGE.I0", {}),
        checkpointer.js_api("STREAM.DELETE.W0"),
    )


async def test_disconnects_are_heard_in_the_servers_own_account(
    connect: Connect, connect_worker: Connect, provisioned_cluster: Cluster
) -> None:
    """By name, soon after they happen."""
    watcher = await connect(
        roles.system_watcher("watcher"),
        name="watcher",
        signer=provisioned_cluster.identity.system_signer,
    )
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    account = provisioned_cluster.identity.account.public
    await watcher.subscribe(
        f"$SYS.ACCOUNT.{account}.DISCONNECT", lambda m: heard.put_nowait(m.data)
    )
    name = unique("leaver")
    leaver = await connect_worker("default", name)
    await leaver.close()
    async with asyncio.timeout(15):
        while f'"{name}"'.encode() not in await heard.get():
            pass
    await forbidden(
        watcher.request("$SYS.REQ.SERVER.PING", timeout_s=2),
        watcher.request("anything", timeout_s=2),
    )


async def test_a_terminal_is_reached_by_its_tenant_alone(
    connect_client: Connect, connect_worker: Connect
) -> None:
    """Its worker hears the one task that it runs; nobody else may hear, and another tenant's words do not come."""
    worker = await connect_worker("default", "w-tty")
    mine, other = await connect_client("mine"), await connect_client("other")
    session, task = uuid4().hex, uuid4().hex
    heard: list[bytes] = []

    async def answer(message: Message) -> None:
        heard.append(message.data)
        await worker.publish(message.reply, b"typed")

    own = subjects.terminal("w-tty", "mine", session, task)
    await worker.subscribe(own, answer)
    assert (await ask(mine, own, b"keys")).data == b"typed"
    strays = (
        (other, subjects.terminal("w-tty", "other", session, task)),
        (mine, subjects.terminal("w-tty", "mine", session, uuid4().hex)),
    )
    for client, subject in strays:
        with pytest.raises(Unavailable):
            await client.request(subject, b"stray", timeout_s=2)
    await forbidden(
        other.request(own, b"stray", timeout_s=2),
        *(
            mine.subscribe(subject, lambda _: None)
            for subject in (own, subjects.terminal("*", "mine"), "tty.>")
        ),
        worker.subscribe(subjects.terminal("another-worker"), lambda _: None),
    )
    assert heard == [b"keys"]
