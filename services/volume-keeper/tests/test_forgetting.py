"""Whose folders a keeper discards: those of sessions that have ended, never those of sessions it knows nothing of just now."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from shared import transitions
from shared.errors import Unavailable
from shared.metrics import DECLARED, Book
from shared.record import Origin, Record
from volume_keeper.adapters.folders import SharedFolders
from volume_keeper.core.places import Taking
from volume_keeper.loops import forget
from volume_keeper.loops.forget import UNKNOWN_LOOKS, Forgetter
from volume_keeper.loops.threads import Threads

LIVE = transitions.create(
    Origin(session="live", tenant="acme", pool="p", lane="interactive", accepted_ms=0),
    owner="w",
    node="n",
    now_ms=1,
)


class MemoryRecords:
    """Records of some sessions, by their names."""

    def __init__(self) -> None:
        """Know none."""
        self.known: dict[str, Record] = {}

    async def read(self, _tenant: str, session: str) -> Record | None:
        """Return what is known."""
        return self.known.get(session)


class Volume:
    """A volume with sessions on it, and a keeper that looks at it."""

    def __init__(self, path: Path) -> None:
        """Begin empty."""
        self.path = path
        self.folders, self.records = SharedFolders(path), MemoryRecords()
        self.folders.begin()
        self.forgetter = Forgetter(self.folders, self.records, Threads("the volume", 2), "p", 60)

    def take(self, session: str, *, age_s: float) -> None:
        """Have a session's folder, taken so long ago."""
        pod = f"pod-{session}"
        self.folders.make(pod)
        self.folders.take(f"acme.{session}", Taking(1, pod))
        then = (self.path / "sessions").stat().st_mtime - age_s
        os.utime(self.path / "sessions" / f"acme.{session}", (then, then))

    def has(self) -> list[str]:
        """Return the sessions that have a folder."""
        return sorted(self.folders.sessions())


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    """An empty one."""
    return Volume(tmp_path)


async def test_a_record_that_one_look_misses_costs_no_files(volume: Volume) -> None:
    """A server that was cut off shows an older state; the count begins anew when the record is seen."""
    volume.take("live", age_s=10 * 3600)
    for _ in range(2):
        for _ in range(UNKNOWN_LOOKS - 1):
            await volume.forgetter.look()
        volume.records.known = {"live": LIVE}
        await volume.forgetter.look()
        volume.records.known = {}

    assert volume.has() == ["acme.live"]


async def test_a_session_that_no_look_knows_is_forgotten_long_after_its_last_taking(
    volume: Volume,
) -> None:
    """Its record went with the end that nobody heard; a folder that was taken just now stays, whatever is read."""
    volume.take("old", age_s=2 * 3600)
    volume.take("new", age_s=60)
    for _ in range(UNKNOWN_LOOKS):
        await volume.forgetter.look()

    assert volume.has() == ["acme.new"]


async def test_a_folder_that_can_not_be_discarded_keeps_no_other_waiting(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage refuses one at each look; those behind it go at the first."""
    sessions = ["a", "b", "c"]
    for session in sessions:
        volume.take(session, age_s=0)
        volume.records.known[session] = msgspec.structs.replace(LIVE, state="closed")
    stuck = volume.folders.sessions()[0]
    discard = SharedFolders.discard

    def refuses(self: SharedFolders, name: str) -> None:
        if name == stuck:
            raise Unavailable("the volume: read-only")
        discard(self, name)

    monkeypatch.setattr(SharedFolders, "discard", refuses)
    await volume.forgetter.look()

    assert volume.has() == [stuck]


async def test_a_keeper_that_is_cut_off_clears_no_pods_away(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hears no worker then; and when it is back, the time for which it must have heard begins anew."""
    volume.folders.make("warm")
    os.utime(volume.path / "pods/warm", (1, 1))

    def pods() -> list[str]:
        return [one.name for one in (volume.path / "pods").iterdir()]

    with monkeypatch.context() as shorter:
        shorter.setattr(forget, "POD_KEPT_S", 0.0)
        volume.forgetter.lost()
        await volume.forgetter.look()
        assert pods() == ["warm"]
    volume.forgetter.restored()
    await volume.forgetter.look()
    assert pods() == ["warm"]

    monkeypatch.setattr(forget, "POD_KEPT_S", 0.0)
    await volume.forgetter.look()
    assert pods() == []


async def test_a_session_whose_end_is_heard_is_forgotten_soon(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of this pool; another one's, and one that goes on, stay. What a look finds is noted."""
    monkeypatch.setattr(forget, "TICK_S", 0.01)
    for session in ("ended", "goes-on", "foreign"):
        volume.take(session, age_s=0)
    volume.forgetter.book = book = Book(DECLARED["volume-keeper"])
    for session, changes in (
        ("ended", {"state": "closed", "pool": "p"}),
        ("goes-on", {"pool": "p"}),
        ("foreign", {"state": "closed", "pool": "q"}),
    ):
        volume.records.known[session] = LIVE
        volume.forgetter.heard_record(msgspec.structs.replace(LIVE, session=session, **changes))

    running = asyncio.create_task(volume.forgetter.run())
    try:
        async with asyncio.timeout(30):
            while "acme.ended" in volume.has():  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.wait({running})

    await volume.forgetter.look()
    assert volume.has() == ["acme.foreign", "acme.goes-on"]
    said = book.render()[0].decode()
    assert 'agent_sandbox_volume_sessions{pool="p"} 2.0' in said
    assert "agent_sandbox_volume_free_bytes" in said
