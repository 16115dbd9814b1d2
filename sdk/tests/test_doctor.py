"""Servers that run but store nothing, as their monitoring says it."""

from __future__ import annotations

import collections
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_sandbox.embedded.doctor import Doctor

SICK = b'{"status":"unavailable","error":"JetStream not enabled (10076)"}'
WELL = b'{"status":"ok"}'


class Monitoring(http.server.BaseHTTPRequestHandler):
    """Answers as a server's monitoring port does."""

    body = WELL

    def do_GET(self) -> None:
        """Say how the server is."""
        self.send_response(200 if self.body == WELL else 503)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a monitoring that is well until the test says otherwise."""
    Monitoring.body = WELL
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Monitoring)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join(10)


async def test_a_server_that_stores_nothing_is_restarted_after_two_looks(
    port: int, tmp_path: Path
) -> None:
    """Once may be its own start; twice in a row is not. A server that is well is left alone."""
    restarted: list[str] = []
    said: list[str] = []
    doctor = Doctor(tmp_path, {"n1": port}, restarted.append, said.append)

    await doctor.look()
    Monitoring.body = SICK
    await doctor.look()
    before = list(restarted)
    await doctor.look()
    Monitoring.body = WELL
    await doctor.look()

    assert (before, restarted) == ([], ["n1"])
    assert said == ["not storing anything: n1", ""]


async def test_nothing_is_restarted_while_the_disk_is_full(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would switch its streams off again; what is wrong is said."""
    usage = collections.namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100 << 20, 99 << 20, 1 << 20))
    Monitoring.body = SICK
    restarted: list[str] = []
    said: list[str] = []
    doctor = Doctor(tmp_path, {"n1": port}, restarted.append, said.append)

    for _ in range(4):
        await doctor.look()

    assert restarted == []
    assert said == ["disk almost full: 1 MiB free, 256 MiB needed; not storing anything: n1"]


async def test_a_server_that_does_not_answer_is_not_the_doctor_s_matter(tmp_path: Path) -> None:
    """A dead one is started again by its keeper."""
    restarted: list[str] = []
    doctor = Doctor(tmp_path, {"n1": 1}, restarted.append, lambda _: None)

    for _ in range(3):
        await doctor.look()

    assert restarted == []
