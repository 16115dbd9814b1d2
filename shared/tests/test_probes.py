"""Probes of a process: what they say, when the event loop stands still, and what strangers can not do to them."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.errors import Rejected
from shared.metrics import DECLARED, Book
from shared.probes import Health, health, listener, nats_problem, probed
from shared.testing.wait import until

METRICS = DECLARED["client-edge"]


def get(url: str, path: str, method: str = "GET") -> tuple[int, str]:
    """Ask for a path; return status and body."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode().strip()
    finally:
        connection.close()


async def ask(url: str, path: str) -> tuple[int, str]:
    """Ask, the event loop free to work meanwhile."""
    return await asyncio.to_thread(get, url, path)


class Probed:
    """A probed process that is this one."""

    def __init__(self, folder: Path) -> None:
        """Name its files."""
        self.ready_file, self.url_file = folder / "ready", folder / "url"
        self.health = Health(str(self.ready_file))
        self.trouble = ""
        self.health.require("server", lambda: self.trouble)

    @property
    def url(self) -> str:
        """Where its probes are."""
        return self.url_file.read_text().strip()


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[Probed]:
    """This process, probed."""
    made = Probed(tmp_path)
    book = Book(METRICS)
    async with probed(made.health, book, address="127.0.0.1:0", url_file=str(made.url_file)):
        yield made
    assert not made.ready_file.exists()
    assert not made.url_file.exists()


async def test_a_service_is_ready_from_its_start_to_its_leave_as_far_as_all_is_well(
    process: Probed,
) -> None:
    """By HTTP, by the file and by the metric alike; live it is all the time."""
    seen = []

    async def look() -> None:
        status, body = await ask(process.url, "/readyz")
        metrics = (await ask(process.url, "/metrics"))[1]
        value = metrics.partition("\nagent_sandbox_ready ")[2].partition("\n")[0]
        seen.append((status, body, process.ready_file.exists(), value))
        assert await ask(process.url, "/livez") == (200, "live")

    async def is_told(value: str) -> None:
        async def told() -> bool:
            metrics = (await ask(process.url, "/metrics"))[1]
            return f"\nagent_sandbox_ready {value}" in metrics

        await until(told)

    await is_told("0.0")
    await look()
    process.health.begin()
    await is_told("1.0")
    await look()
    process.trouble = "it hangs"
    await is_told("0.0")
    await look()
    process.trouble = ""
    await is_told("1.0")
    process.health.leave()
    await is_told("0.0")
    await look()

    assert seen == [
        (503, "start: it is starting", False, "0.0"),
        (200, "ready", True, "1.0"),
        (503, "server: it hangs", False, "0.0"),
        (503, "start: it is leaving", False, "0.0"),
    ]


def test_a_readiness_file_that_can_not_be_written_ends_nothing(tmp_path: Path) -> None:
    """The disk is full, say: the service goes on looking at itself, and says by HTTP what it found."""
    (tmp_path / "file").write_text("in the way")
    made = Health(str(tmp_path / "file" / "ready"))
    made.begin()

    assert made.tick() >= 0
    assert made.ready() == ""


async def test_an_event_loop_that_stands_still_is_told_while_it_does(
    process: Probed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not ready soon, not live later; the values are still there. It is both again when it goes on."""
    monkeypatch.setattr(health, "UNSEEN_S", 0.6)
    monkeypatch.setattr(health, "BLOCKED_S", 1.2)
    process.health.begin()
    url = process.url
    assert get(url, "/readyz") == (200, "ready")
    time.sleep(0.9)  # noqa: ASYNC251 - this is the fault
    soon = get(url, "/readyz"), get(url, "/livez")
    time.sleep(0.6)  # noqa: ASYNC251 - likewise
    later = get(url, "/livez"), get(url, "/metrics")[0]

    assert [status for status, _ in soon] == [503, 200]
    assert "event loop: stands still" in soon[0][1]
    assert later[0][0] == 503
    assert "the event loop stands still for 1." in later[0][1]
    assert later[1] == 200

    async def is_ready_again() -> bool:
        return await ask(url, "/readyz") == (200, "ready")

    await until(is_ready_again)
    assert await ask(url, "/livez") == (200, "live")


async def test_a_process_that_was_stopped_as_a_whole_is_not_blamed_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After SIGSTOP and SIGCONT, or a night with a closed lid, a restart would help nobody."""
    clock = [100.0]
    monkeypatch.setattr(health.time, "monotonic", lambda: clock[0])
    seen = Health()
    for _ in range(3):
        clock[0] += 0.5
        seen.tick()
        seen.look()
    clock[0] += 3600.0
    assert seen.live() == ""
    for _ in range(25):  # from here on the loop does stand still
        clock[0] += 0.5
        seen.look()

    assert seen.live() == "the event loop stands still for 12.5 s"


@pytest.mark.parametrize(
    ("connected", "age_s", "problem"),
    [(True, 0.5, ""), (True, 4.0, "no answer for 4.0 s"), (False, 0.1, "no connection")],
)
def test_a_connection_that_is_open_and_silent_is_none(
    connected: bool, age_s: float, problem: str
) -> None:
    """A hung server keeps it open."""

    class Bus:
        def __init__(self) -> None:
            self.connected = connected

        def contact_age_s(self) -> float:
            return age_s

    assert nats_problem(Bus())() == problem


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /livez HTTP/1.1\r\n\r\n", b"200"),
        (b"HEAD /livez?x=1 HTTP/1.0\r\nHost: x\r\n\r\n", b"200"),
        (b"POST /livez HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"405"),
        (b"GET /other HTTP/1.1\r\n\r\n", b"404"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /livez HTTP/1.1\r\n" + b"a: b\r\n" * 2000 + b"\r\n", b"400"),
    ],
)
async def test_a_request_is_answered_or_refused(
    process: Probed, request_: bytes, status: bytes
) -> None:
    """With a proper answer each time, and the connection's end."""
    host, _, port = process.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request_)
    answer = b""
    try:
        async with asyncio.timeout(5):
            answer = await reader.read()
    except ConnectionError:  # more was sent than is read
        assert status == b"400"
    finally:
        writer.transport.abort()

    head, _, body = answer.partition(b"\r\n\r\n")
    if answer:
        assert head.startswith(b"HTTP/1.1 " + status)
        assert (not body) == request_.startswith(b"HEAD")


async def test_who_sends_slowly_or_opens_many_connections_keeps_no_prober_out(
    process: Probed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request has a deadline as a whole, and there is a bound of them."""
    monkeypatch.setattr(listener, "REQUEST_S", 1.0)
    host, _, port = process.url.removeprefix("http://").partition(":")
    slow: list[Any] = []
    for _ in range(listener.CONNECTIONS_MAX + 4):
        slow.append(await asyncio.open_connection(host, int(port)))
        slow[-1][1].write(b"GET /livez HTTP/1.1\r\n")

    async def trickle() -> None:
        while True:
            for _, writer in slow:
                writer.write(b"a: b\r\n")
            await asyncio.sleep(0.1)

    trickling = asyncio.create_task(trickle())

    async def is_answered() -> bool:
        try:
            return await ask(process.url, "/livez") == (200, "live")
        except (OSError, http.client.HTTPException):
            return False

    await until(is_answered, within_s=10)
    trickling.cancel()
    for _, writer in slow:
        writer.transport.abort()


async def test_who_only_holds_connections_makes_no_service_look_hung(process: Probed) -> None:
    """The oldest makes room at once, long before its deadline: a service that seems hung would be killed."""
    host, _, port = process.url.removeprefix("http://").partition(":")
    held = [
        await asyncio.open_connection(host, int(port)) for _ in range(2 * listener.CONNECTIONS_MAX)
    ]
    assert await ask(process.url, "/livez") == (200, "live")
    async with asyncio.timeout(listener.REQUEST_S / 2):
        assert await held[0][0].read() == b""
    for _, writer in held:
        writer.transport.abort()


@pytest.mark.parametrize(
    "accept",
    ["application/openmetrics-text; version=x", "text/plain;version=1.x", ";;,=", "," * 5000],
)
async def test_a_scraper_that_asks_for_rubbish_gets_the_plain_form(
    process: Probed, accept: str
) -> None:
    """An answer all the same."""
    host, _, port = process.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /metrics HTTP/1.1\r\nAccept: " + accept.encode() + b"\r\n\r\n")
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nContent-Type: text/plain" in answer


async def test_an_address_that_is_none_or_taken_is_refused(process: Probed) -> None:
    """With the reason; nothing is left behind."""
    taken = process.url.removeprefix("http://")
    for address in ("9999", "host:port", "127.0.0.1:70000", taken):
        with pytest.raises(Rejected, match="probes"):
            async with probed(Health(), Book(METRICS), address=address, url_file=None):
                pass


async def test_what_should_be_seen_to_is_said_and_keeps_nobody_from_work(process: Probed) -> None:
    """A line behind `ready`, while it is so."""
    why = "gone"
    process.health.remark("file", lambda: why)
    process.health.begin()
    assert await ask(process.url, "/readyz") == (200, "ready\nfile: gone")
    why = ""
    process.health.tick()
    assert await ask(process.url, "/readyz") == (200, "ready")
