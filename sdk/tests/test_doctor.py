"""Servers that run and do no good, as their monitoring says it."""

from __future__ import annotations

import collections
import http.server
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.embedded.doctor import HUNG_CHECKS, SICK_CHECKS, Doctor, Hand, Patient
from shared.cluster import monitor

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


class Ward:
    """A doctor whose patients are `n1` with a disk at `place`, and what it did and said."""

    def __init__(self, port: int, place: Path, *others: tuple[str, int, Path]) -> None:
        """Begin with nothing done."""
        self.restarted: list[str] = []
        self.killed: list[str] = []
        self.said: list[str] = []
        patients = {"n1": Patient(port, place)}
        patients |= {name: Patient(other, disk) for name, other, disk in others}
        hand = Hand(restart=self.restarted.append, kill=self.killed.append)
        self.doctor = Doctor(patients, hand, self.said.append)

    async def look(self, times: int) -> None:
        """Look so often."""
        for _ in range(times):
            await self.doctor.look()


async def test_a_server_that_stores_nothing_for_long_is_restarted(
    port: int, tmp_path: Path
) -> None:
    """A moment may be its own start. A server that is well is left alone."""
    ward = Ward(port, tmp_path)

    await ward.look(SICK_CHECKS)
    Monitoring.body = SICK
    await ward.look(SICK_CHECKS - 1)
    before = list(ward.restarted)
    await ward.look(1)
    Monitoring.body = WELL
    await ward.look(1)

    assert (before, ward.restarted, ward.killed) == ([], ["n1"], [])
    assert ward.said == ["not storing anything: n1", ""]


async def test_a_server_is_not_restarted_while_its_own_disk_is_full(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would switch its streams off again; what is wrong is said. One with room beside it is restarted."""
    (tmp_path / "full").mkdir()
    usage: Any = collections.namedtuple("usage", "total used free")
    free = {tmp_path: 99 << 30, tmp_path / "full": 1 << 20}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(100 << 30, 0, free[path]))
    Monitoring.body = SICK
    ward = Ward(port, tmp_path / "full", ("n2", port, tmp_path))

    await ward.look(SICK_CHECKS)

    assert ward.restarted == ["n2"]
    assert ward.said[0] == (
        "disk almost full: 1 MiB free, 256 MiB needed (n1); not storing anything: n1, n2"
    )


async def test_a_server_that_does_not_answer_is_killed_one_that_is_down_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel takes connections for a process that hangs; a dead one is started again by its keeper."""
    monkeypatch.setattr(monitor, "ASK_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        ward = Ward(hung.getsockname()[1], tmp_path, ("n2", 1, tmp_path))
        await ward.look(HUNG_CHECKS - 1)
        before = list(ward.killed)
        await ward.look(1)

    assert (before, ward.killed, ward.restarted) == ([], ["n1"], [])
    assert ward.said == ["not answering: n1", ""]


async def test_one_answer_between_is_enough_to_live_on(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine is no hang."""
    answers = iter([None, None, {"status": "ok"}, None, None, {"status": "ok"}])
    monkeypatch.setattr(monitor, "ask", lambda *_: next(answers))
    ward = Ward(port, tmp_path)

    await ward.look(6)

    assert ward.killed == []
