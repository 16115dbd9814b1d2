"""Services that run and hang, as their probes say it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_sandbox.embedded import nurse, probing
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.nurse import Nurse
from agent_sandbox.embedded.probing import ProbeView, probe_all
from shared.probes.listener import Answer, Listener

KINDS = {"pool-manager-1": "manager", "edge-1": "edge"}


class Service:
    """The probes of a service that says what the test wants."""

    def __init__(self, folder: Folder, name: str) -> None:
        """Be live and ready."""
        self.live = self.ready = Answer(200, b"ok\n")
        paths = {"/livez": lambda _: self.live, "/readyz": lambda _: self.ready}
        self.listener = Listener("127.0.0.1:0", paths, lambda: None)
        self.url = self.listener.start()
        (folder.probes / name).write_text(f"{self.url}\n")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A state folder."""
    folder = Folder(tmp_path / "state")
    folder.create()
    return folder


@pytest.fixture
def services(folder: Folder) -> Iterator[dict[str, Service]]:
    """Two services with probes."""
    made = {name: Service(folder, name) for name in KINDS}
    yield made
    for service in made.values():
        service.listener.stop()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the nurse's clock says."""
    now = [1000.0]
    monkeypatch.setattr(nurse.time, "monotonic", lambda: now[0])
    return now


class Ward:
    """A nurse, and whom it had killed."""

    def __init__(self, folder: Folder, clock: list[float]) -> None:
        """Begin with nothing done."""
        self.killed: list[str] = []
        self.clock = clock
        self.nurse = Nurse(folder, lambda: KINDS, self.killed.append)

    async def look(self, for_s: float) -> None:
        """Look every five seconds for so long."""
        for _ in range(int(for_s / 5) + 1):
            await self.nurse.look()
            self.clock[0] += 5


async def test_a_service_that_is_not_live_for_long_is_killed_once(
    folder: Folder, services: dict[str, Service], clock: list[float]
) -> None:
    """A moment may pass by itself; the others are left alone."""
    ward = Ward(folder, clock)
    services["edge-1"].live = Answer(503, b"the event loop stands still for 11.0 s\n")
    await ward.look(nurse.HUNG_S - 5)
    before = list(ward.killed)
    await ward.look(5)

    assert before == []
    assert ward.killed == ["edge-1"]


async def test_a_service_that_answers_no_probe_is_killed(
    folder: Folder,
    services: dict[str, Service],
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when it was stopped and nobody lets it go on."""
    monkeypatch.setattr(probing, "ASK_S", 0.2)
    ward = Ward(folder, clock)
    services["pool-manager-1"].listener.stop()
    await ward.look(nurse.HUNG_S)

    assert ward.killed == ["pool-manager-1"]


async def test_a_service_that_is_not_ready_or_hung_for_a_moment_or_was_started_anew_stays(
    folder: Folder, services: dict[str, Service], clock: list[float]
) -> None:
    """A restart would not help the first two; the third is another process with other probes."""
    ward = Ward(folder, clock)
    services["pool-manager-1"].ready = Answer(503, b"nats: no connection\nshards: none\n")
    services["edge-1"].live = Answer(503, b"hangs\n")
    await ward.look(nurse.HUNG_S - 5)
    services["edge-1"].live = Answer(200, b"live\n")
    await ward.look(5)
    services["edge-1"].live = Answer(503, b"hangs\n")
    await ward.look(nurse.HUNG_S - 5)
    services["edge-1"].listener.stop()
    anew = Service(folder, "edge-1")
    anew.live = Answer(503, b"hangs\n")
    await ward.look(nurse.HUNG_S - 5)
    anew.listener.stop()
    seen = await probe_all(folder, ["pool-manager-1"])

    assert ward.killed == []
    assert seen["pool-manager-1"].why == "nats: no connection; shards: none"


async def test_where_metrics_are_is_written_for_prometheus(
    folder: Folder, services: dict[str, Service], clock: list[float]
) -> None:
    """One target for each service, by its job; the list follows a service to its next port."""
    ward = Ward(folder, clock)
    await ward.look(0)
    first = json.loads((folder.probes / "targets.json").read_text())
    (folder.probes / "edge-1").unlink()
    await ward.look(0)
    then = json.loads((folder.probes / "targets.json").read_text())

    url = services["pool-manager-1"].url.removeprefix("http://")
    manager = {"targets": [url], "labels": {"job": "pool-manager", "instance": "pool-manager-1"}}
    assert {target["labels"]["instance"] for target in first} == set(KINDS)
    assert then == [manager]
    assert await probe_all(folder, ["edge-1"]) == {"edge-1": ProbeView(why="it is starting")}
