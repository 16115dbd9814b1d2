"""A truth and a sandbox in memory, and a worker's holder of sessions over both."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from shared import task, transitions
from shared.errors import Conflict, ServiceError, Unavailable
from shared.letters import DeadLetter
from shared.messages import TaskResult
from shared.record import Origin, Record
from shared.service import Stop
from shared.traces import Sampling
from worker_agent.core.claims import Headers
from worker_agent.core.results import Place, RunEnd
from worker_agent.loops.commit import Committer
from worker_agent.loops.finish import Ports
from worker_agent.loops.hold_session import SessionHolder
from worker_agent.loops.keep_files import FileKeeper
from worker_agent.loops.note import Notes
from worker_agent.loops.run_task import TaskRunner
from worker_agent.ports import Entry, Held
from worker_agent.settings import WorkerSettings

SESSION = "0192f0c4-0000-7000-8000-000000000001"
PLACE = Place(worker="w", node="n", isolation="process")
ORIGIN = Origin(session=SESSION, tenant="t", pool="p", lane="interactive", accepted_ms=0)


class FakeTruth:
    """One session's record, results and inbox in memory; `faults` are raised by the next writes, one each."""

    record: Record

    def __init__(self) -> None:
        """Hold nothing yet."""
        self.seq = 0
        self.results: dict[str, TaskResult] = {}
        self.inbox: list[Entry] = []
        self.faults: list[ServiceError | None] = []
        self.letters: list[DeadLetter] = []
        self.unread = 0
        """So many reads get no answer."""

    def put(self, record: Record) -> int:
        """Store a record as anybody would."""
        self.record, self.seq = record, self.seq + 1
        return self.seq

    def _write(self, record: Record, expected: int) -> int:
        if self.faults and (fault := self.faults.pop(0)) is not None:
            raise fault
        if expected != self.seq:
            raise Conflict("another sequence")
        return self.put(record)

    async def write(self, record: Record, expected_seq: int) -> int:
        """Compare and set."""
        return self._write(record, expected_seq)

    async def commit(self, record: Record, expected_seq: int, result: TaskResult) -> int:
        """Store both or none."""
        if result.task in self.results:
            raise Conflict("it has a result")
        seq = self._write(record, expected_seq)
        self.results[result.task] = result
        return seq

    async def read(self, _tenant: str, _session: str, _pool: str) -> tuple[Record, int]:
        """Return the record."""
        return self.record, self.seq

    async def result_exists(self, _record: Record, name: str) -> bool:
        """Look, where reads are answered."""
        if self.unread:
            self.unread -= 1
            raise Unavailable("no leader")
        return name in self.results

    async def payload(self, _record: Record) -> bytes | None:
        """Return nothing: each test brings its own."""
        return None

    async def next_entry(self, _record: Record, after_seq: int) -> Entry | None:
        """Return what follows."""
        return next((entry for entry in self.inbox if entry.seq > after_seq), None)

    async def bury(self, letter: DeadLetter, _body: bytes) -> None:
        """Keep it."""
        self.letters.append(letter)

    async def server_ahead_ms(self, _record: Record) -> int:
        """The clocks agree."""
        return 0


class FakeSandbox:
    """Runs nothing, well."""

    def __init__(self) -> None:
        """Be there."""
        self.lost = False
        self.end = RunEnd(exit_code=0)
        self.ran: list[str] = []
        self.after_run: list[Any] = []
        """Called one after each run."""
        self.counted: list[int] = []
        """Since when changes were to be counted, each time."""
        self.changed_bytes: int | None = None

    def count_changes(self, since_ms: int) -> None:
        """Remember since when; nothing changes."""
        self.counted.append(since_ms)

    async def run(self, order: Any) -> RunEnd:
        """Say that it went well."""
        self.ran.append(order.env["AGENT_SANDBOX_TASK"])
        await order.on_started(time.time() * 1000)
        if self.after_run:
            self.after_run.pop(0)()
        return self.end

    async def wait_lost(self) -> None:
        """Never return."""
        await asyncio.Event().wait()


class FakeVoice:
    """Says nothing, but knows what it was to say."""

    def __init__(self) -> None:
        """Know nothing."""
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        """Task, name, details."""

    async def output(self, *_: Any) -> None:
        """To nobody."""

    async def event(self, _record: Record, name: str, event: str, **details: Any) -> None:
        """Likewise."""
        self.events.append((name, event, details))


def holder(
    truth: Any,
    sandbox: Any,
    *,
    give_up_s: float = 5.0,
    voice: Any = None,
    spans: Any = None,
    workspaces: Any = None,
    settings: WorkerSettings | None = None,
) -> SessionHolder:
    """Return a holder of sessions over both."""
    voice = voice or FakeVoice()
    committer = Committer(truth, give_up_s=give_up_s)
    files = FileKeeper(workspaces, sandbox, committer, settings or WorkerSettings(), lambda: None)
    ports = Ports(
        truth=truth,
        sandbox=sandbox,
        voice=voice,
        committer=committer,
        files=files,
        terminals=None,  # type: ignore[arg-type]  # no task here has one
        objects=lambda _tenant: None,
        notes=Notes(spans, PLACE, None if spans is None else Sampling()),
    )
    rule = "rerun" if settings is None else settings.on_interrupt
    runner = TaskRunner(ports, PLACE, on_interrupt=rule, on_change=lambda: None)

    async def on_kept(_held: Held) -> None: ...

    return SessionHolder(truth, runner, committer, files, on_kept=on_kept)


def body(*, keep: bool) -> bytes:
    """Return a first task."""
    return task.encode_task(task.Command(argv=("true",), keep=keep))


def owned(truth: FakeTruth, payload: bytes) -> Held:
    """Let the worker own the session, its first task to be done."""
    record = transitions.create(ORIGIN, owner="w", node="n", now_ms=1)
    record = msgspec.structs.replace(record, accepted_ms=10**14)
    return Held(record=record, seq=truth.put(record), payload=payload)


def entry(number: int, klass: str | None = None) -> Entry:
    """Return an inbox entry."""
    named = Entry(task=f"task-{number:04d}", seq=number, body=body(keep=True), accepted_ms=10**14)
    return msgspec.structs.replace(named, headers=Headers(klass=klass))


async def hold(
    truth: FakeTruth, sandbox: FakeSandbox, held: Held, stop: Stop, **named: Any
) -> None:
    """Hold the session to its end, within the test's own bound."""
    async with asyncio.timeout(15):
        await holder(truth, sandbox, **named).hold(held, stop, idle_release_s=0.05)
