"""The connection itself: who may do what, what strangers send, and what a loss leaves behind."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import structlog

from shared import identity
from shared.bus import Bus, BusOptions, Message
from shared.cluster import Cluster
from shared.errors import Forbidden, OutcomeUnknown, Rejected, Unavailable
from shared.identity import Permissions, roles
from shared.testing.names import unique
from shared.testing.plugin import Connect
from shared.testing.wait import until


async def test_no_server_is_said_within_the_deadline() -> None:
    """With the servers' addresses, and why."""
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1\b"):
        await Bus.connect(BusOptions(servers=("nats://127.0.0.1:1",), name="lost"), deadline_s=0.5)
    assert time.monotonic() - began < 10.0


async def test_a_connection_that_breaks_at_once_is_made_again(
    provisioned_cluster: Cluster,
) -> None:
    """The server takes the connection and is gone before it answers anything: that is no reason to give up."""
    real = urlsplit(provisioned_cluster.urls[0])
    connections: list[asyncio.Task[None]] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = not connections
        connections.append(asyncio.current_task())  # type: ignore[arg-type]  # there is one in a handler
        there, here = await asyncio.open_connection(real.hostname, real.port)

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                if first and b"SUB " in data:
                    break
                target.write(data)
            target.close()

        try:
            await asyncio.gather(copy(reader, here), copy(there, writer))
        finally:
            for end in (here, writer):
                end.close()
                with suppress(OSError):
                    await end.wait_closed()

    async with await asyncio.start_server(relay, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        credential = provisioned_cluster.identity.signer.mint("admin", roles.admin())
        options = BusOptions(
            servers=(f"nats://127.0.0.1:{port}",), name="admin", credential=credential
        )
        bus = await Bus.connect(options, deadline_s=10)
        assert await bus.js_api("INFO")
        await bus.close()
        async with asyncio.timeout(15):
            await asyncio.gather(*connections, return_exceptions=True)
    assert len(connections) > 1


async def test_a_strange_credential_is_refused_at_once(provisioned_cluster: Cluster) -> None:
    """Signed by another operator's account: no use in trying on."""
    stranger = identity.make_identity().signer.mint("stranger", roles.admin())
    options = BusOptions(servers=provisioned_cluster.urls, name="stranger", credential=stranger)
    began = time.monotonic()
    with pytest.raises(Forbidden, match="refuse"):
        await Bus.connect(options, deadline_s=30)
    assert time.monotonic() - began < 15.0


async def test_an_inbox_that_may_not_be_heard_is_said_at_connect(connect: Connect) -> None:
    """Else every request would just time out."""
    with pytest.raises(Forbidden, match="may not hear its answers"):
        await connect(roles.worker("default", "w1"), name="w1", inbox_prefix="_INBOX_other")


async def test_a_request_is_answered(admin_bus: Bus) -> None:
    """By a coroutine handler, with headers."""
    subject = unique("echo")

    async def answer(message: Message) -> None:
        await admin_bus.publish(message.reply, message.data, headers=message.headers)

    await admin_bus.subscribe(subject, answer, queue="echo")
    reply = await admin_bus.request(subject, b"hello", timeout_s=5, headers={"A": "b"})
    assert (reply.data, dict(reply.headers)) == (b"hello", {"A": "b"})


async def test_a_request_without_an_answer_is_unknown(admin_bus: Bus) -> None:
    """Somebody listens, nobody answers."""
    subject = unique("silent")
    await admin_bus.subscribe(subject, lambda _message: None)
    with pytest.raises(OutcomeUnknown):
        await admin_bus.request(subject, timeout_s=0.1)
    assert admin_bus.connected  # the server itself does answer: the connection is kept
    await asyncio.sleep(0.5)
    assert admin_bus.connected


async def test_a_refused_publish_is_an_error_of_the_call(connect_client: Connect) -> None:
    """The servers say it beside the call; the bus brings both together."""
    client = await connect_client("mine")
    for subject in (
        "task.foreign.default.batch",
        "q.0.mine.default.batch",
        "s.0.rec.default.mine.x",
    ):
        began = time.monotonic()
        with pytest.raises(Forbidden):
            await client.publish_acked(subject, b"{}", message_id=uuid4().hex)
        assert time.monotonic() - began < 5.0  # the deadline is 10 s
    assert len(client.refusals) == 3


async def test_a_refused_subscription_is_an_error_of_the_call(connect_client: Connect) -> None:
    """Nothing is heard silently, and the connection goes on."""
    client = await connect_client("mine")
    for subject in ("done.foreign.>", "rec.>", ">"):
        with pytest.raises(Forbidden):
            await client.subscribe(subject, lambda _message: None)
    await client.subscribe("done.mine.>", lambda _message: None)


async def test_a_handler_that_fails_does_not_end_the_hearing(admin_bus: Bus) -> None:
    """Neither a function's nor a coroutine's fault."""
    subject = unique("faulty")
    heard: asyncio.Queue[str] = asyncio.Queue()

    def fail(_message: Message) -> None:
        heard.put_nowait("function")
        raise RuntimeError("on purpose")

    async def fail_later(_message: Message) -> None:
        heard.put_nowait("coroutine")
        raise RuntimeError("on purpose")

    await admin_bus.subscribe(subject, fail)
    await admin_bus.subscribe(subject, fail_later)
    for _ in range(2):
        await admin_bus.publish(subject)
    async with asyncio.timeout(15):
        names = [await heard.get() for _ in range(4)]
    assert sorted(names) == ["coroutine", "coroutine", "function", "function"]
    assert admin_bus.connected


async def test_a_lambda_around_a_coroutine_function_is_said(admin_bus: Bus) -> None:
    """Nobody would await what it returns, and the message would be lost in silence."""
    subject = unique("lambda")

    async def handle(_message: Message, _more: str) -> None:
        raise AssertionError("nobody awaits this")

    with structlog.testing.capture_logs() as lines:
        await admin_bus.subscribe(subject, lambda message: handle(message, "more"))
        await admin_bus.publish(subject)
        await until(lambda: bool(lines))
    assert [(line["event"], line["subject"]) for line in lines] == [
        ("bus.message_dropped", subject)
    ]


async def test_a_subscription_that_ended_is_let_go(admin_bus: Bus) -> None:
    """A client that waits for many results subscribes many times."""
    before = len(admin_bus._subscriptions)
    for _ in range(3):
        await (await admin_bus.subscribe(unique("once"), lambda _message: None)).unsubscribe()
        await (await admin_bus.subscribe(unique("once"), lambda _message: None)).drain()
    assert len(admin_bus._subscriptions) == before
    assert not admin_bus._link.client._sinks.keys() - admin_bus._link.client._subs.keys()


async def test_a_subscription_whose_caller_is_cancelled_is_let_go(admin_bus: Bus) -> None:
    """It was sent already, and nobody has it to end it."""
    subscribing = asyncio.create_task(admin_bus.subscribe("let.go", lambda _: None))
    await asyncio.sleep(0)
    subscribing.cancel()
    await asyncio.wait({subscribing})

    assert not admin_bus._subscriptions
    assert not any(sub.subject == "let.go" for sub in admin_bus._link.client._subs.values())


async def test_a_message_that_cannot_be_read_does_not_end_the_connection(
    admin_bus: Bus,
) -> None:
    """A stranger may put any bytes into a subject or a header."""
    topic = unique("bytes")
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    await admin_bus.subscribe(f"{topic}.*", lambda message: heard.put_nowait(message.data))
    header = b"NATS/1.0 \xff\xfe\xff 1\r\nA:\xff\r\n\r\n"
    for line in (
        f"PUB {topic}.".encode() + b"\xff\xfe 3\r\nbad\r\n",
        f"HPUB {topic}.header {len(header)} {len(header) + 3}\r\n".encode() + header + b"bad\r\n",
    ):
        admin_bus._link.client._queue_line(line)
    await admin_bus.publish(f"{topic}.good", b"good")
    async with asyncio.timeout(15):
        while await heard.get() != b"good":
            pass
    assert admin_bus.connected


async def test_headers_cannot_smuggle_commands(admin_bus: Bus) -> None:
    """A line end in a header or a blank in a subject is refused before anything is sent."""
    for headers in ({"A": "b\r\nPUB x 0"}, {"A\r\n": "b"}, {"A:": "b"}, {"": "b"}):
        with pytest.raises(Rejected):
            await admin_bus.publish("some.where", b"", headers=headers)
    for subject in ("some where", "some.where\r\nPUB x 0", ""):
        with pytest.raises(Rejected):
            await admin_bus.publish(subject, b"")
    assert admin_bus.connected


async def test_a_callers_headers_are_not_changed(admin_bus: Bus) -> None:
    """They may be shared by many publishes."""
    headers = {"A": "b"}
    await admin_bus.publish_acked(
        "task.t.default.batch", b"{}", message_id=uuid4().hex, headers=headers
    )
    assert headers == {"A": "b"}


async def test_a_slow_coroutine_drops_what_its_queue_cannot_hold(admin_bus: Bus) -> None:
    """Counted, and the connection is not blocked."""
    subject = unique("slow")
    go = asyncio.Event()
    handled: list[bytes] = []

    async def handle(message: Message) -> None:
        await go.wait()
        handled.append(message.data)

    subscription = await admin_bus.subscribe(subject, handle, pending_max=3)
    for number in range(10):
        await admin_bus.publish(subject, b"%d" % number)
    await until(lambda: subscription.dropped >= 6)
    go.set()
    await subscription.drain()
    assert len(handled) == 10 - subscription.dropped


async def test_draining_handles_what_is_on_its_way(admin_bus: Bus, connect: Connect) -> None:
    """And nothing after."""
    subject = unique("drain")
    heard: list[bytes] = []
    hearer = await connect(name="hearer")

    async def handle(message: Message) -> None:
        await asyncio.sleep(0.01)
        heard.append(message.data)

    subscription = await hearer.subscribe(subject, handle)
    for number in range(10):
        await admin_bus.publish(subject, b"%d" % number)
    assert await admin_bus._link.client.ping(2)
    await asyncio.sleep(0.05)
    await subscription.drain()
    assert len(heard) == 10
    await admin_bus.publish(subject, b"late")
    assert await admin_bus._link.client.ping(2)
    assert len(heard) == 10


async def test_contact_is_as_old_as_what_was_answered(connect: Connect) -> None:
    """Fresh after a request, older without one, watched where asked."""
    bus = await connect(ping_interval_s=60.0)
    await asyncio.sleep(0.3)
    old = bus.contact_age_s()
    assert old >= 0.3
    await bus.js_api("INFO")
    assert bus.contact_age_s() < old
    async with bus.watch_contact(0.05):
        await asyncio.sleep(0.4)
        await until(lambda: bus.contact_age_s() < 0.3)


async def test_a_user_without_any_permission_can_do_nothing(connect: Connect) -> None:
    """Empty lists are refusals, not "all"."""
    nobody = Permissions(("nothing.to.say",), ("_INBOX_nobody.>",))
    bus = await connect(nobody, name="nobody")
    with pytest.raises(Forbidden):
        await bus.request("anything", timeout_s=2)
    with pytest.raises(Forbidden):
        await bus.subscribe("anything", lambda _message: None)
