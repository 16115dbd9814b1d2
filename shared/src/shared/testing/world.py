"""A store, inboxes and a queue in memory, for tests that drive the record's rules at random.

Actors are generators that yield what they ask the world for, one operation at a time; whoever runs them decides when
an operation happens and whether its answer arrives. Each write is checked as it lands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import msgspec

from shared import limits
from shared.errors import Conflict
from shared.record import ENDED, OWNED, Hold, Record


class Message(msgspec.Struct, eq=False):
    """A message of the queue: the first task itself, or a token."""

    session: str
    plain: bool
    flying: bool = False


class Result(msgspec.Struct, frozen=True):
    """The end of a task, and what its owner's workspace held then."""

    task: str
    status: str
    lost: bool = False
    """It says that the workspace before it was lost."""
    before: tuple[str, ...] = ()


class Write(msgspec.Struct, frozen=True):
    """All of these values or none: each under the sequence that its key must have (0: none)."""

    author: str
    session: str
    record: Record | None
    record_seq: int
    results: tuple[Result, ...] = ()


Ask = Callable[[], Any] | Write
"""An operation: a read or an ack, done when it is called; or a write."""
Program = Generator[Ask, Any, None]


class World:
    """What outlives every process."""

    def __init__(self) -> None:
        """Begin empty."""
        self.records: dict[str, tuple[int, Record]] = {}
        self.results: dict[str, dict[str, Result]] = {}
        self.inboxes: dict[str, list[tuple[int, str]]] = {}
        self.queue: list[Message] = []
        self.holds: dict[str, tuple[str, Hold]] = {}
        """What each living worker names in its heartbeats: session and epoch."""
        self.alive: set[str] = set()
        self._deaths: Counter[str] = Counter()
        """Owners found dead since the last result of one, by session: the record's own count, recounted."""
        self._seq = 0

    # --- clients -----------------------------------------------------------------------------------------------------
    def publish(self, session: str) -> None:
        """Accept a session's first task; a second time, as the retry on another shard does."""
        self.results.setdefault(session, {})
        self.inboxes.setdefault(session, [])
        self.queue.append(Message(session, plain=True))

    def follow_up(self, session: str) -> None:
        """Accept the next task of a session."""
        self._seq += 1
        inbox = self.inboxes[session]
        inbox.append((self._seq, f"{session}-task-{len(inbox) + 1}"))

    # --- reads -------------------------------------------------------------------------------------------------------
    def pull(self) -> Message | None:
        """Take the oldest waiting message."""
        for message in self.queue:
            if not message.flying:
                message.flying = True
                return message
        return None

    def ack(self, message: Message) -> None:
        """Remove a message, whoever asks."""
        if message in self.queue:
            self.queue.remove(message)

    def give_back(self, message: Message) -> None:
        """Let a message be delivered again."""
        message.flying = False

    def next_entry(self, session: str, after: int) -> tuple[int, str] | None:
        """Return the first inbox entry beyond a sequence."""
        return next((entry for entry in self.inboxes[session] if entry[0] > after), None)

    def task_in_hand(self, session: str, record: Record) -> str | None:
        """Return the first task without a result."""
        tasks = [] if record.first_done else [session]
        tasks += [task for seq, task in self.inboxes[session] if seq > record.position]
        return next((task for task in tasks if task not in self.results[session]), None)

    def unfinished(self) -> list[str]:
        """Return what keeps the world from rest: tasks without a result, sessions that wait or are owned."""
        found = [
            task
            for session, inbox in self.inboxes.items()
            for task in (session, *(task for _, task in inbox))
            if task not in self.results[session]
        ]
        return found + [
            f"{session} is {record.state}"
            for session, (_, record) in self.records.items()
            if record.state not in ENDED and record.state != "idle"
        ]

    # --- writes ------------------------------------------------------------------------------------------------------
    def write(self, write: Write) -> int:
        """Apply a write.

        Raises:
            Conflict: somebody else was faster; nothing was written.
        """
        seq, old = self.records.get(write.session, (0, None))
        results = self.results[write.session]
        taken = any(result.task in results for result in write.results)
        if taken or (write.record is not None and seq != write.record_seq):
            raise Conflict(f"{write.author} lost against another writer")
        if write.record is not None:
            self._check(old, write.record, write)
            self._seq += 1
            self.records[write.session] = (self._seq, write.record)
        results.update({result.task: result for result in write.results})
        return self._seq

    def _check(self, old: Record | None, new: Record, write: Write) -> None:
        """State what must hold of each change of a record, whoever makes it."""
        if old is None:
            assert new.epoch in (0, 1)
            return
        assert old.state not in ENDED, f"{write.author} changed what has ended"
        assert new.epoch >= old.epoch, "an epoch went back"
        assert new.position >= old.position, "the position went back"
        if new.owner not in (None, old.owner):
            took_back = old.state == "idle" and new.epoch == old.epoch
            assert took_back or new.epoch == old.epoch + 1, "an owner without an epoch of its own"
            assert old.state not in OWNED, f"{new.owner} took the session from {old.owner}"
        if old.owner is not None and new.epoch == old.epoch:
            assert write.author == old.owner, f"{write.author} wrote under {old.owner}'s epoch"
        committed = [result for result in write.results if result.status == "ok"]
        assert new.tasks_done == old.tasks_done + len(committed)
        if committed:
            self._deaths[write.session] = 0
        elif old.state == "running" and new.epoch > old.epoch and old.owner not in self.alive:
            self._deaths[write.session] += 1
        deaths = self._deaths[write.session]
        assert new.state != "poison" or deaths >= limits.DEATHS_MAX, f"poison after {deaths} deaths"
