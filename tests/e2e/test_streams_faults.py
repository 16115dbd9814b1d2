"""Streams of a task's events when something dies, is slow, or is gone: no byte is lost in silence, none comes twice."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack

import httpx
import pytest
from tests.e2e.streamed import Site, collect, shown

from agent_sandbox import Client, ClientOptions, Missing, Output, Recovered
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.table import read_table
from shared import subjects
from shared.bus import Bus
from shared.cluster import monitor, open_layout
from shared.limits import OUTPUT_BYTES_MAX, RESULT_OUTPUT_BYTES_MAX
from shared.rest import StreamEvent
from shared.testing.look import until

LINES = 30
COUNT = f"for i in $(seq {LINES}); do echo $i; sleep 0.05; done"
NUMBERS = b"".join(b"%d\n" % n for n in range(1, LINES + 1))


@pytest.fixture
async def site(embedded: Folder) -> Site:
    """The gateways of the shared cluster."""
    return await asyncio.to_thread(Site, embedded)


def kill(folder: Folder, name: str) -> None:
    """Kill a service; the supervisor starts it again."""
    table = read_table(folder)
    assert table is not None
    process = next(row.process for row in table.rows if row.name == name)
    assert process is not None
    assert process.send(signal.SIGKILL)


async def is_back(site: Site, gateway: int) -> None:
    """Wait until a gateway answers again."""

    async def answers() -> bool:
        try:
            async with site.http(gateway) as http:
                return (await http.get("/v1/pools")).status_code == 200
        except httpx.TransportError:
            return False

    await until(answers, within_s=30)


async def test_a_gateway_killed_in_mid_stream_costs_neither_loss_nor_repetition(
    site: Site, embedded: Folder
) -> None:
    """Its reader goes on at the other one, behind what he has; our client does so by itself."""
    options = ClientOptions(state=embedded.path, servers=site.urls[::-1], token=site.token)
    async with Client(options) as client:
        task = await client.start(shell=COUNT)
        by_client = asyncio.create_task(collect(task.events()))
        events: list[StreamEvent] = []
        with pytest.raises(httpx.TransportError):
            await read_until(site, task.task_id, events, lambda: kill(embedded, "gateway-2"))
        assert events[-1].event != "result"
        events += await collect(site.events(task.task_id, gateway=0, after=events[-1].id))
        told = await by_client

    assert shown(events) == NUMBERS
    assert len({event.id for event in events}) == len(events)
    assert [event.position for event in told] == [event.id for event in events[:-1]]
    await is_back(site, 1)


async def read_until(
    site: Site, task: str, events: list[StreamEvent], act: Callable[[], object]
) -> None:
    """Read a task's events at the second gateway; act once when there are ten lines."""
    done = False
    async for event in site.events(task, gateway=1):
        events.append(event)
        if not done and event.attempt == 1 and shown(events).endswith(b"\n10\n"):
            done = True
            act()


def kill_worker(folder: Folder, worker: str) -> None:
    """Kill a task's worker."""
    table = read_table(folder)
    assert table is not None
    process = find_worker(folder, worker, table.supervisor.pid)
    assert process is not None
    assert process.send(signal.SIGKILL)


async def test_a_reader_who_leaves_before_a_recovery_and_one_who_stays_are_told_the_same(
    site: Site, embedded: Folder
) -> None:
    """The worker dies in mid-stream: what it wrote, what happened, and all of what the next one writes."""
    task = await site.start(f"seq 10; sleep 4; seq 11 {LINES}")
    events: list[StreamEvent] = []

    def kill_its_worker() -> None:
        kill_worker(embedded, events[0].worker)

    await read_until(site, task, events, kill_its_worker)
    tens = next(n for n, event in enumerate(events) if shown(events[: n + 1]).endswith(b"\n10\n"))
    came_back = await collect(site.events(task, gateway=0, after=events[tens].id))

    assert came_back == events[tens + 1 :]
    recovered = next(event for event in events if event.event == "recovered")
    assert recovered.interruption is not None
    again = [event for event in events if event.attempt == 2]
    assert [event.event for event in again[:2]] == ["recovered", "started"]
    assert shown(again) == NUMBERS
    assert events[-1].result is not None
    assert events[-1].result.attempt == 2


BIG = OUTPUT_BYTES_MAX + 1_000_000
WRITE_BIG = f"head -c {BIG} /dev/zero | tr '\\0' x"


async def test_a_slow_reader_gets_all_of_what_was_written_fast(site: Site) -> None:
    """Nothing waits for him, and little is held for him; over the cap is missing to the byte, but for the end."""
    task = await site.start(WRITE_BIG)
    written = missing = 0
    async for event in site.events(task):
        if event.event == "output":
            assert event.offset == written + missing
            written += len(event.text or "")
            if written < 500_000:
                await asyncio.sleep(0.05)
        elif event.event == "missing":
            missing += event.size or 0

    assert event.result is not None
    assert written == OUTPUT_BYTES_MAX + RESULT_OUTPUT_BYTES_MAX
    assert missing == BIG - written


async def test_two_hundred_readers_at_once_are_all_told_everything(site: Site) -> None:
    """Of several tasks, at both gateways; some come from the middle."""
    shell = "for i in 1 2 3 4 5; do echo $i; sleep 0.2; done"
    tasks = await asyncio.gather(*(site.start(shell) for _ in range(2)))
    streams = [
        collect(site.events(tasks[n % 2], gateway=n // 2 % 2, accepted_ms=1)) for n in range(200)
    ]
    for events in await asyncio.gather(*streams):
        assert shown(events) == b"1\n2\n3\n4\n5\n"
        assert events[-1].event == "result"


async def heard(folder: Folder, subject: str) -> int:
    """Return how often a subject is subscribed to, on all servers."""
    ports = [port.monitor for port in open_layout(folder.servers).file.ports]
    answers = await asyncio.gather(
        *(asyncio.to_thread(monitor.ask, port, "/connz?limit=4096&subs=1") for port in ports)
    )
    return sum(
        (each.get("subscriptions_list") or []).count(subject)
        for answer in answers
        for each in (answer or {}).get("connections") or []
    )


async def test_readers_that_disappear_leave_nothing_behind(site: Site, embedded: Folder) -> None:
    """Neither subscriptions nor places: their tenant can open as many again."""
    task = await site.start("echo go; sleep 30")
    subject = subjects.output("default", task, task)
    async with AsyncExitStack() as stack:
        for _ in range(20):
            events = site.events(task)
            await anext(events)
            stack.push_async_callback(events.aclose)
        assert await heard(embedded, subject) >= 20

    async def all_gone() -> bool:
        # Whoever took the call listens for the start, until it has come.
        return await heard(embedded, subject) == 0

    await until(all_gone, within_s=20)
    async with site.http() as http:
        await http.post(f"/v1/tasks/{task}/cancel")


async def test_what_is_stored_nowhere_any_more_is_missing_and_nothing_else(
    client: Client, truth: Bus
) -> None:
    """Output lies in memory: when all servers start again it is gone. What the result keeps comes from there."""
    size = 3 * RESULT_OUTPUT_BYTES_MAX
    small = await client.start(shell="echo all of it; echo beside >&2")
    large = await client.start(shell=f"head -c {size} /dev/zero | tr '\\0' x; echo end >&2")
    for task in (small, large):
        await task.result()
        subject = subjects.output("default", task.session_id, task.task_id)
        await truth.js_api("STREAM.PURGE.OUT", {"filter": subject})
    told = []
    for task in (small, large):
        async with await client.attach(task.task_id) as again:
            told.append(await collect(again.events()))

    assert [event.data for event in told[0] if isinstance(event, Output)] == [
        b"all of it\n",
        b"beside\n",
    ]
    gone, *rest = told[1]
    assert isinstance(gone, Missing)
    assert (gone.stream, gone.size) == ("stdout", size - RESULT_OUTPUT_BYTES_MAX)
    assert [(e.stream, e.offset, len(e.data)) for e in rest if isinstance(e, Output)] == [
        ("stdout", gone.size, RESULT_OUTPUT_BYTES_MAX),
        ("stderr", 0, 4),
    ]


async def test_what_is_lost_while_a_task_runs_comes_from_its_result(
    client: Client, truth: Bus
) -> None:
    """Who comes after the loss waits for what the result keeps, rather than being told half."""
    task = await client.start(shell=COUNT)
    async for event in task.events():
        if isinstance(event, Output) and event.data == b"10\n":
            subject = subjects.output("default", task.session_id, task.task_id)
            await truth.js_api("STREAM.PURGE.OUT", {"filter": subject})
            break
    async with await client.attach(task.task_id) as again:
        events = await collect(again.events())

    assert b"".join(event.data for event in events if isinstance(event, Output)) == NUMBERS
    assert not any(isinstance(event, Missing) for event in events)


async def test_a_task_is_heard_from_the_middle_by_our_client_too(client: Client) -> None:
    """Straight on NATS; the result is there for who attaches after the end as well."""
    task = await client.start(shell=COUNT)
    events = await collect(task.events())
    result = await task.result()
    after = events[len(events) // 2].position
    async with await client.attach(task.task_id, after=after) as again:
        assert await collect(again.events()) == events[len(events) // 2 + 1 :]
        assert (await again.result()).raw == result.raw
    assert not any(isinstance(event, Recovered) for event in events)
