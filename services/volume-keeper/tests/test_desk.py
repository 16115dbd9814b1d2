"""What a keeper answers to pool-managers and workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from shared import messages, transitions
from shared.errors import ErrorInfo
from shared.metrics import DECLARED, Book
from shared.record import Origin, Record
from shared.volumes import MakeAsk, TakeAsk
from volume_keeper.adapters.folders import SharedFolders
from volume_keeper.loops import serve
from volume_keeper.loops.serve import Desk
from volume_keeper.loops.threads import Threads

POOL, MAKE = "large", messages.encode(MakeAsk())
MINE = transitions.create(
    Origin(session="s", tenant="acme", pool=POOL, lane="interactive", accepted_ms=0),
    owner="pod-1",
    node="n",
    now_ms=1,
)


class OneRecord:
    """One session's record."""

    def __init__(self) -> None:
        """It is the first pod's."""
        self.now: Record | None = MINE

    async def read(self, _tenant: str, _session: str) -> Record | None:
        """Return it."""
        return self.now


class Keeper:
    """A keeper of a volume."""

    def __init__(self, volume: Path) -> None:
        """Begin with an empty one."""
        self.volume, self.records = volume, OneRecord()
        self.book = Book(DECLARED["volume-keeper"])
        folders = SharedFolders(volume, "the volume of pool large")
        folders.begin()
        self.threads = Threads(folders.called, 2)
        self.desk = Desk(folders, self.records, self.threads, POOL, self.book)

    async def ask(self, op: str, pod: str, body: bytes = MAKE) -> ErrorInfo | None:
        """Return what went wrong."""
        return (await self.desk.answer(op, pod, body)).error

    async def take(self, pod: str, epoch: int) -> ErrorInfo | None:
        """Ask for the session's files."""
        ask = TakeAsk(tenant="acme", session="s", epoch=epoch)
        return await self.ask("take", pod, messages.encode(ask))

    def has(self) -> list[str]:
        """Return the pods that have the session's folder."""
        return [folder.parent.name for folder in (self.volume / "pods").glob("*/files")]

    def counted(self, op: str, outcome: str) -> float:
        """Return how many requests are counted so."""
        text = self.book.render()[0].decode()
        name = (
            f'agent_sandbox_volume_requests_total{{op="{op}",outcome="{outcome}",pool="{POOL}"}} '
        )
        return sum(float(line[len(name) :]) for line in text.splitlines() if line.startswith(name))


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    """One that works."""
    return Keeper(tmp_path)


async def test_who_owns_the_session_gets_its_folder_and_nobody_else(keeper: Keeper) -> None:
    """By the record, whoever says what; and a pod that no folder was made for gets none."""
    for pod in ("pod-1", "pod-2"):
        assert await keeper.ask("make", pod) is None
    assert await keeper.take("pod-1", 1) is None
    assert keeper.has() == ["pod-1"]

    for pod, epoch in (("pod-2", 1), ("pod-1", 2), ("pod-2", 3)):
        refused = await keeper.take(pod, epoch)
        assert refused is not None
        assert refused.code == "stale_epoch"
    keeper.records.now = msgspec.structs.replace(MINE, owner="pod-2", epoch=3)
    assert await keeper.take("pod-2", 3) is None
    assert keeper.has() == ["pod-2"]

    keeper.records.now = msgspec.structs.replace(MINE, owner="pod-3", epoch=5)
    missing = await keeper.take("pod-3", 5)
    assert missing is not None
    assert missing.code == "not_found"
    told = [keeper.counted("make", "done"), keeper.counted("take", "done")]
    assert told == [2, 2]
    assert keeper.counted("take", "stale_epoch") == 3
    assert keeper.counted("take", "not_found") == 1


@pytest.mark.parametrize(("op", "body"), [("drop", MAKE), ("take", b"{")])
async def test_what_cannot_be_asked_is_said_to_be_so(keeper: Keeper, op: str, body: bytes) -> None:
    """And counted; a word of somebody else's is no label."""
    refused = await keeper.ask(op, "pod-1", body)
    assert refused is not None
    assert refused.code == "invalid_message"
    assert keeper.counted("other" if op == "drop" else op, "invalid_message") == 1


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The pods whose folders a storage is asked for that answers only at the end of the test."""
    mended, asked = threading.Event(), list[str]()

    def waits(_: SharedFolders, pod: str) -> None:
        asked.append(pod)
        mended.wait()

    monkeypatch.setattr(SharedFolders, "make", waits)
    monkeypatch.setattr(serve, "ANSWER_S", 0.01)
    yield asked
    mended.set()


async def test_a_volume_that_hangs_is_named_in_each_answer(
    keeper: Keeper, hanging: list[str]
) -> None:
    """However many ask: so many threads are its, and no more."""
    for number in range(6):
        refused = await keeper.ask("make", f"pod-{number}")
        assert refused is not None
        assert refused.code == "unavailable"
        assert "the volume of pool large" in refused.message
    assert hanging == ["pod-0", "pod-1"]
    assert keeper.counted("make", "unavailable") == 6
