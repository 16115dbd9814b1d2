"""Workers, sweepers and clients that cancel, as programs over `shared.testing.world`: the protocol in short."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

import msgspec

from shared import transitions
from shared.errors import Conflict, OutcomeUnknown, StaleEpoch
from shared.record import ENDED, OWNED, Death, Hold, Origin, Record, is_mine
from shared.testing.world import Ask, Message, Program, Result, World, Write

CLAIMS_MAX = 5
COMMITS_MAX = 50


class Held(msgspec.Struct):
    """A session that a worker owns, as far as it knows."""

    record: Record
    seq: int
    workspace: tuple[str, ...] = ()


def origin(session: str) -> Origin:
    """Return what a plain message's subject says."""
    return Origin(session=session, tenant="acme", pool="p", lane="interactive", accepted_ms=1)


class Worker:
    """One worker with an identity of its own: takes one session, then its pod ends."""

    def __init__(self, world: World, name: str) -> None:
        """Work in `world`."""
        self._world = world
        self._name = name

    def program(self) -> Program:
        """Pull until a session is won, work it off, end."""
        world = self._world
        held = None
        while held is None:
            message: Message | None = yield world.pull
            if message is None:
                continue
            try:
                held = yield from self._claim(message)
            except OutcomeUnknown:
                yield partial(world.give_back, message)
                continue
            if held is not None:
                hold = Hold(self._name, held.record.epoch)
                world.holds[self._name] = (message.session, hold)
            yield partial(world.ack, message)
        try:
            yield from self._hold(held)
        except StaleEpoch:
            return

    def _read(self, session: str) -> Ask:
        return lambda: self._world.records.get(session, (0, None))

    def _write(self, held: Held, record: Record, *results: Result) -> Write:
        return Write(self._name, record.session, record, held.seq, results)

    def _claim(self, message: Message) -> Generator[Ask, Any, Held | None]:
        session = message.session
        if message.plain:
            record = transitions.create(origin(session), owner=self._name, node="n", now_ms=1)
            try:
                seq = yield Write(self._name, session, record, 0)
                return Held(record, seq)
            except (Conflict, OutcomeUnknown):
                pass
        for _ in range(CLAIMS_MAX):
            seq, found = yield self._read(session)
            if found is not None and found.owner == self._name and found.state == "running":
                return Held(found, seq)  # an unanswered write of its own
            if found is None and message.plain:
                raise OutcomeUnknown("its create may still land")
            if found is None:
                return None
            try:
                record = transitions.claim(found, owner=self._name, node="n", now_ms=1)
            except Conflict:
                return None  # it waits for nobody
            try:
                seq = yield self._write(Held(found, seq), record)
                return Held(record, seq)
            except (Conflict, OutcomeUnknown):
                continue
        return None

    def _hold(self, held: Held) -> Generator[Ask, Any, None]:
        world, session = self._world, held.record.session
        if not held.record.first_done:
            yield from self._run(held, session, None)
        seen = held.record.position
        while True:
            entry = yield partial(world.next_entry, session, seen)
            if entry is None:
                if (yield from self._release(held, seen)):
                    return
                continue
            seen, task = entry
            if task not in (yield lambda: set(world.results[session])):
                yield from self._run(held, task, seen)

    def _run(self, held: Held, task: str, inbox_seq: int | None) -> Generator[Ask, Any, None]:
        """Commit a task's result with the record; after a refusal or no answer re-read, then the same again."""
        world, session = self._world, held.record.session
        hold = Hold(self._name, held.record.epoch)
        ok = {name for name, result in world.results[session].items() if result.status == "ok"}
        before = tuple(done for done in held.workspace if done in ok)
        for _ in range(COMMITS_MAX):
            record = transitions.complete(
                held.record, hold, inbox_seq=inbox_seq, then="keep", now_ms=1
            )
            result = Result(task, "ok", lost=held.record.lost is not None, before=before)
            try:
                held.seq = yield self._write(held, record, result)
                held.record = record
            except (Conflict, OutcomeUnknown):
                held.seq, found = yield self._read(session)
                self._check_mine(found, hold)
                held.record = found
            held.workspace = (*before, task)
            if task in (yield lambda: set(world.results[session])):
                return

    def _release(self, held: Held, seen: int) -> Generator[Ask, Any, bool]:
        """Return whether the session is given up."""
        world, before, session = self._world, held.record, held.record.session
        hold = Hold(self._name, before.epoch)
        released = transitions.release(before, hold, position=seen, now_ms=1)
        try:
            held.seq = yield self._write(held, released)
        except (Conflict, OutcomeUnknown):
            held.seq, found = yield self._read(session)
            if found is None or found.state != "idle" or found.epoch != hold.epoch:
                self._check_mine(found, hold)
                held.record = found
                return False
            released = found
        if (yield lambda: world.next_entry(session, seen)) is None:
            return True
        back = transitions.take_back(released, before)
        try:
            held.seq = yield self._write(held, back)
            held.record = back
        except Conflict:
            return True
        except OutcomeUnknown:
            held.seq, found = yield self._read(session)
            self._check_mine(found, hold)
            held.record = found
        return False

    @staticmethod
    def _check_mine(found: Record | None, hold: Hold) -> None:
        if not is_mine(found, hold):
            raise StaleEpoch("another owner has it")


def sweeper(world: World, name: str) -> Program:
    """Read all records, then act on each by what was read, however old that is by then."""
    while True:
        table: dict[str, tuple[int, Record]] = yield lambda: dict(world.records)
        for session, (seq, record) in table.items():
            for ask in _sweep(world, name, session, seq, record):
                try:
                    yield ask
                except (Conflict, OutcomeUnknown):
                    break


def _sweep(world: World, name: str, session: str, seq: int, record: Record) -> list[Ask]:
    beyond = world.next_entry(session, record.position) is not None
    named = world.holds.get(record.owner or "") == (session, Hold(record.owner or "", record.epoch))
    if record.state in OWNED and not named:
        return [revocation(world, name, record, seq)]
    if record.state == "queued":
        token = partial(world.queue.append, Message(session, plain=False))
        if beyond and record.lane == "batch":  # what came later is more urgent
            return [Write(name, session, transitions.wake(record, lane="interactive"), seq), token]
        return [token]
    if record.state == "idle" and beyond:
        return [Write(name, session, transitions.wake(record, lane="batch"), seq)]
    if record.state in ENDED:
        return [
            Write(name, session, None, 0, (Result(task, "rejected"),))
            for _, task in world.inboxes[session]
            if task not in world.results[session]
        ]
    return []


def revocation(world: World, name: str, record: Record, seq: int) -> Write:
    """Return the write that gives an owner up; poison ends the task in hand with it."""
    session, died = record.session, record.owner not in world.alive
    task = world.task_in_hand(session, record)
    death = Death(
        cause="gone", process_died=died, in_task=task is not None or not died, task=task or ""
    )
    revoked = transitions.revoke(record, death=death, now_ms=1)
    poison = (Result(task, "poison"),) if task and revoked.state == "poison" else ()
    return Write(name, session, revoked, seq, poison)


def cancel(world: World, session: str, task: str) -> Program:
    """End a task that nobody runs: the first one with its session, another one by its result alone."""
    seq, found = yield lambda: world.records.get(session, (0, None))
    result = Result(task, "cancelled")
    try:
        if task != session:
            if found is None or found.state not in ENDED:
                yield Write("canceller", session, None, 0, (result,))
        elif found is None:
            ended = transitions.ended_unborn(
                origin(session), state="cancelled", reason="", now_ms=1
            )
            yield Write("canceller", session, ended, 0, (result,))
        elif not found.first_done:
            ended = transitions.end(found, state="cancelled", reason="", now_ms=1)
            yield Write("canceller", session, ended, seq, (result,))
    except (Conflict, OutcomeUnknown):
        return
