"""Losing a connection and getting another: however it ends, however often, and with what on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from shared.bus import Bus, BusOptions, know_servers, servers
from shared.cluster import Cluster
from shared.errors import Unavailable
from shared.testing.faults import mend, strike
from shared.testing.names import unique
from shared.testing.plugin import Connect, admin_options, server_of
from shared.testing.wait import until

INFO = b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576,"headers":true}\r\n'
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def fake_server(serve: Serve) -> AsyncIterator[BusOptions]:
    """Listen as no real server would; yield how to connect."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield BusOptions(servers=(f"nats://127.0.0.1:{port}",), name="fake")
    server.close()


async def answer_pings(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Do what a server does that has nothing to say."""
    writer.write(INFO)
    while line := await reader.readline():
        if line == b"PING\r\n":
            writer.write(b"PONG\r\n")
    writer.close()


async def test_servers_that_have_moved_are_found_where_they_were_said_to_be() -> None:
    """As pods whose nodes were booted: at none of the addresses of the beginning is anybody any more."""
    first: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first.append(writer)
        await answer_pings(reader, writer)

    async with fake_server(answer) as before, fake_server(answer_pings) as after:
        bus = await Bus.connect(before)
        assert f"nats://{bus.server}" == before.servers[0]
        know_servers(bus, after.servers)
        first[0].close()
        await until(lambda: bus.connected and f"nats://{bus.server}" == after.servers[0])
        await bus.close()


async def test_nothing_is_sent_late(private_cluster: Cluster) -> None:
    """What is published while there is no connection fails at once, and is not sent after the reconnect."""
    bus = await Bus.connect(admin_options(private_cluster))
    heard: list[bytes] = []
    lost, restored = asyncio.Event(), asyncio.Event()
    bus.on_lost, bus.on_restored = lost.set, restored.set
    await bus.subscribe("late", lambda message: heard.append(message.data))
    private_cluster.kill()
    async with asyncio.timeout(15):
        await lost.wait()
    assert not bus.connected
    for _ in range(5):
        with pytest.raises(Unavailable):
            await bus.publish("late", b"late")
        with pytest.raises(Unavailable):
            await bus.request("late", b"late", timeout_s=0.1)
    with pytest.raises(Unavailable):
        await bus.publish_acked(
            "task.t.default.batch", b"{}", message_id="late0001", deadline_s=0.3
        )
    private_cluster.start(die_with_parent=True)
    async with asyncio.timeout(20):
        await restored.wait()
    await bus.publish("late", b"now")
    await until(lambda: bool(heard))
    assert heard == [b"now"]
    await bus.close()


async def test_a_connect_that_is_refused_again_and_again_ends_at_its_deadline() -> None:
    """Whatever is lost on the way: the library's loop lost one cancellation in thirty, and went on for ever."""

    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        writer.close()

    before = asyncio.all_tasks()
    async with fake_server(refuse) as options, asyncio.timeout(20):
        results = await asyncio.gather(
            *(Bus.connect(options, deadline_s=0.2 + n / 500) for n in range(150)),
            return_exceptions=True,
        )
        assert {type(result) for result in results} == {Unavailable}
        await until(lambda: asyncio.all_tasks() <= before | {asyncio.current_task()})


@pytest.mark.parametrize(
    "garbage",
    [
        b"WHAT IS THIS\r\n" + b"x" * 8192,
        b"MSG a.b notanumber 5\r\nhello\r\n" + b"x" * 8192,
        b"-ERR 'Authentication Expired'\r\n",
        b"-ERR 'Unknown Thing'\r\n",
    ],
    ids=["no protocol", "no number", "expired", "unknown error"],
)
async def test_what_ends_the_reader_leads_to_a_new_connection(garbage: bytes) -> None:
    """Never to a client that is connected and deaf, or closed for good."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        if connections == 1:
            asyncio.get_running_loop().call_later(0.1, writer.write, garbage)
        await answer_pings(reader, writer)

    async with fake_server(serve) as options, asyncio.timeout(10):
        bus = await Bus.connect(options)
        restored = asyncio.Event()
        bus.on_restored = restored.set
        await restored.wait()
        assert await bus.probe(timeout_s=1)
        assert connections == 2
        await bus.close()


async def test_a_callback_that_fails_changes_nothing(
    private_cluster: Cluster, connect: Connect
) -> None:
    """Neither at the loss nor at the return."""
    bus = await connect(cluster=private_cluster)
    told: list[str] = []

    def fail(what: str) -> None:
        told.append(what)
        raise RuntimeError("on purpose")

    bus.on_lost, bus.on_restored = lambda: fail("lost"), lambda: fail("restored")
    server_of(bus, private_cluster).kill()
    await until(lambda: told == ["lost", "restored"], within_s=10)
    assert await bus.probe(timeout_s=2)


async def test_trying_again_never_ends_and_never_hurries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library gives up after 60 tries at each server, and says so to nobody who asks."""
    refusals = 0
    serving = False

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal refusals
        if serving:
            return await answer_pings(reader, writer)
        refusals += 1
        return writer.transport.abort()

    async with fake_server(serve) as options, asyncio.timeout(30):
        serving = True
        bus = await Bus.connect(options)
        restored = asyncio.Event()
        bus.on_restored = restored.set
        serving = False
        await bus._link.client.force_reconnect()
        await asyncio.sleep(2.0)  # how often it tries in this time is what is tested
        assert 3 <= refusals <= 12
        monkeypatch.setattr(servers, "RECONNECT_WAIT_MAX_S", 0.001)
        monkeypatch.setattr(servers, "RECONNECT_WAIT_S", 0.001)
        await until(lambda: refusals > 150, within_s=20)
        assert not bus.connected
        serving = True
        await restored.wait()
        assert await bus.probe(timeout_s=1)
        await bus.close()


@pytest.mark.parametrize(
    "fault", ["killed", *(pytest.param(f, marks=pytest.mark.slow) for f in ("hung", "cut"))]
)
async def test_the_first_publish_after_a_reconnect_is_answered(
    fault: str, private_cluster: Cluster, connect: Connect
) -> None:
    """And each of the next; the answers' inbox came along."""
    bus = await connect(cluster=private_cluster)
    restored = asyncio.Event()
    bus.on_restored = restored.set
    server = server_of(bus, private_cluster)
    await strike(fault, server)
    async with asyncio.timeout(15):
        await restored.wait()
    for _ in range(10):
        ack = await bus.publish_acked("task.t.default.batch", b"{}", message_id=uuid4().hex)
        assert not ack.duplicate
    mend(server)


@pytest.mark.parametrize("fault", ["hung", pytest.param("cut", marks=pytest.mark.slow)])
async def test_a_watched_contact_leaves_a_silent_server(
    fault: str, private_cluster: Cluster, connect: Connect
) -> None:
    """After two misses, though the connection's own pings are a minute apart."""
    bus = await connect(cluster=private_cluster, ping_interval_s=60.0)
    restored = asyncio.Event()
    bus.on_restored = restored.set
    server = server_of(bus, private_cluster)
    async with bus.watch_contact(0.3):
        await strike(fault, server)
        async with asyncio.timeout(15):
            await restored.wait()
    assert bus.contact_age_s() < 15.0
    mend(server)


@pytest.mark.cuttable
async def test_clients_that_are_cut_off_alone_go_to_another_server(
    backend: str, private_cluster: Cluster, connect: Connect
) -> None:
    """The server lives and leads on; what was in flight is stored once, whenever the cut is healed."""
    if backend == "containers":
        return  # an engine takes a container off the whole network; `cut` does that
    bus = await connect(cluster=private_cluster)
    other = await connect(
        cluster=private_cluster,
        servers=tuple(url for url in private_cluster.urls if bus.server not in url),
    )
    tenant = unique("t")
    subject = f"task.{tenant}.default.batch"
    server = server_of(bus, private_cluster)
    ids = [uuid4().hex for _ in range(50)]
    publishing = [
        asyncio.create_task(bus.publish_acked(subject, one.encode(), message_id=one)) for one in ids
    ]
    await asyncio.sleep(0)
    await asyncio.to_thread(server.cut_clients)
    acks = await asyncio.gather(*publishing)
    assert bus.server not in server.url
    await asyncio.to_thread(server.heal)
    await other.probe(timeout_s=2)
    stored: list[tuple[str, str]] = []
    for shard in range(3):
        after = 0
        while found := await other.read_next(f"Q{shard}", f"q.*.{tenant}.>", after_seq=after):
            stored.append((f"Q{shard}", found.data.decode()))
            after = found.seq
    assert {one for _, one in stored} == set(ids)
    assert len(stored) == len(set(stored))
    assert len(acks) == 50
