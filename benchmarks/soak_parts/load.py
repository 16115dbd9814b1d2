"""The load: one-shots and kept sessions, short and long tasks, published by the clock whatever becomes of them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.load import task_id
from harness.running import say

from agent_sandbox.orders import Order
from agent_sandbox.over_nats.publishing import publish_order
from agent_sandbox.places import TENANT
from shared import subjects
from shared.bus import Bus
from shared.errors import OutcomeUnknown, ServiceError
from shared.task import Close, Python, Task, encode_task
from shared.testing.history import Accepted, Place, TaskKey

CODE = """\
import os, time
with open("journal", "a") as journal:
    journal.write(os.environ["AGENT_SANDBOX_TASK"] + "\\n")
time.sleep({seconds})
print(open("journal").read())
"""
"""Each task appends its id to a file of the workspace and reads all of it back: what is lost, doubled or out of order
in a workspace shows in the results."""
PUBLISH_S = 30.0
ONE_SHOTS = 0.08
"""Share of all tasks."""
LONG = 0.12
LONG_S = (0.5, 3.0)
INTERACTIVE = 0.7
"""Share of new sessions; the others are batch."""
OUTSTANDING_MAX = 4
"""Tasks of one session that wait or run at once."""
TASKS_OF_A_SESSION = (20, 60)
NAP = 0.002
"""Chance that a session rests after a publish, longer than its owner waits for the next task."""
NAP_S = 5.0


@dataclass
class Sent:
    """One task as its publisher knows it; clocks in seconds since the load began."""

    key: TaskKey
    seconds: float
    """That it sleeps."""
    published_s: float
    one_shot: bool = False
    journal: bool = True
    accepted: Accepted | None = None
    accepted_s: float = 0.0
    finished_s: float = 0.0

    @property
    def latency_s(self) -> float:
        """From the publish to the stored result, without the time that it sleeps on purpose."""
        return self.finished_s - self.published_s - self.seconds


@dataclass(eq=False)
class Kept:
    """A session that stays open for a number of tasks."""

    session: str
    left: int
    outstanding: set[TaskKey] = field(default_factory=set)
    publishing: int = 0
    rests_until: float = 0.0
    born: bool = False
    """Its first task has been accepted: others may follow."""


class Load:
    """Publishes, and remembers."""

    def __init__(self, bus: Bus, pool: str, seed: int, sessions: int) -> None:
        """Publish over a client's connection."""
        self.sent: dict[TaskKey, Sent] = {}
        self.refused: list[str] = []
        self.long_share = LONG
        """Share of tasks that sleep; the others end at once."""
        self.one_shots = ONE_SHOTS
        """For each task of a session."""
        self.tasks_of_a_session = TASKS_OF_A_SESSION
        """Fewest and most."""
        self._bus, self._pool = bus, pool
        self._random = random.Random(seed)
        self._sessions = sessions
        self._kept: list[Kept] = []
        self._by_session: dict[str, Kept] = {}
        self._publishing: set[asyncio.Task[None]] = set()
        self._began = time.monotonic()
        self._number = 0
        self._one_shot_next = False
        self._is_over = False

    def now(self) -> float:
        """Return seconds since the load began."""
        return time.monotonic() - self._began

    # --- publishing --------------------------------------------------------------------------------------------------

    async def run(self, seconds: float, rate: float) -> None:
        """Publish for a while; what is late is made up for."""
        self._began = time.monotonic()
        self._kept = [self._new_session() for _ in range(self._sessions)]
        while (now := self.now()) < seconds and not self._is_over:
            while self._number < now * rate and self._publish_one():
                pass
            await asyncio.sleep(0.01)
        if self._publishing:
            await asyncio.wait(self._publishing, timeout=PUBLISH_S + 5)

    def stop(self) -> None:
        """Publish nothing more: `run` ends when what it has begun is answered."""
        self._is_over = True

    def _publish_one(self) -> bool:
        """Publish the next task; return False where every session has enough to do."""
        if self._one_shot_next:
            self._one_shot_next = False
            self._send(task_id(self._next()), None, keep=False)
            return True
        ready = [kept for kept in self._kept if self._can_take(kept)]
        if not ready:
            return False
        kept = self._random.choice(ready)
        # Decided once for each task: were it for each try, sessions that are behind would be made up for by one-shots.
        self._one_shot_next = self._random.random() < self.one_shots
        if self._random.random() < NAP:
            kept.rests_until = self.now() + NAP_S
        if kept.left == 0:
            if kept.publishing:
                return len(ready) > 1
            self._close(kept)
        else:
            kept.left -= 1
            self._send(task_id(self._next()), kept)
        return True

    def _can_take(self, kept: Kept) -> bool:
        return (
            kept.born and len(kept.outstanding) < OUTSTANDING_MAX and kept.rests_until < self.now()
        )

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _new_session(self) -> Kept:
        kept = Kept(task_id(self._next()), self._random.randint(*self.tasks_of_a_session))
        self._by_session[kept.session] = kept
        self._send(kept.session, kept, keep=True)
        return kept

    def _send(self, task: str, kept: Kept | None, *, keep: bool | None = None) -> None:
        long = self._random.random() < self.long_share
        seconds = round(self._random.uniform(*LONG_S), 2) if long else 0.0
        body = Python(code=CODE.format(seconds=seconds), keep=bool(keep))
        self._start(
            task, kept, body, Sent(("", "", ""), seconds, self.now(), one_shot=kept is None)
        )

    def _close(self, kept: Kept) -> None:
        """Close a session, and open another in its place."""
        self._kept.remove(kept)
        self._start(
            task_id(self._next()), kept, Close(), Sent(("", "", ""), 0, self.now(), journal=False)
        )
        self._kept.append(self._new_session())

    def _start(self, task: str, kept: Kept | None, body: Task, sent: Sent) -> None:
        session = task if kept is None else kept.session
        sent.key = (TENANT, session, task)
        self.sent[sent.key] = sent
        if kept is not None:
            kept.outstanding.add(sent.key)
            kept.publishing += 1
        job = asyncio.create_task(self._publish(sent, kept, encode_task(body)))
        self._publishing.add(job)
        job.add_done_callback(self._publishing.discard)

    async def _publish(self, sent: Sent, kept: Kept | None, body: bytes) -> None:
        tenant, session, task = sent.key
        first = task == session
        klass = "interactive" if self._random.random() < INTERACTIVE else "batch"
        order = Order(
            tenant=tenant,
            session=session,
            task=task,
            body=body,
            pool=self._pool if first else None,
            klass=klass if first else None,
            wait_s=PUBLISH_S,
        )
        seq, certain = 0, True
        try:
            ack = await publish_order(self._bus, order, time.monotonic() + PUBLISH_S)
            seq = 0 if first else ack.seq
        except OutcomeUnknown:
            certain = False
        except ServiceError as exc:
            self.refused.append(f"{exc.code}: {exc}")
            self._settle(sent)
            return
        finally:
            if kept is not None:
                kept.publishing -= 1
        sent.accepted_s = self.now()
        sent.accepted = Accepted(
            tenant=tenant, session=session, task=task, seq=seq, certain=certain
        )
        if kept is not None and first:
            kept.born = True

    # --- results -----------------------------------------------------------------------------------------------------

    def on_stored(self, _: Place, subject: str, __: bytes) -> None:
        """Take in what a state stream has stored."""
        if subject.startswith("done."):
            sent = self.sent.get(subjects.parse_task(subject))
            if sent is not None and not sent.finished_s:
                sent.finished_s = self.now()
                self._settle(sent)

    def _settle(self, sent: Sent) -> None:
        if (kept := self._by_session.get(sent.key[1])) is not None:
            kept.outstanding.discard(sent.key)

    def accepted(self) -> list[Accepted]:
        """Return all that was accepted, or may have been."""
        return [sent.accepted for sent in self.sent.values() if sent.accepted is not None]

    def unfinished(self) -> list[Sent]:
        """Return what was surely accepted and has no result yet."""
        return [
            sent
            for sent in self.sent.values()
            if sent.accepted is not None and sent.accepted.certain and not sent.finished_s
        ]

    async def drain(self, within_s: float, tell: Callable[[], None] = lambda: None) -> float:
        """Wait until everything has its result; return how long that took, seconds."""
        began = time.monotonic()
        while self.unfinished() and time.monotonic() - began < within_s:
            tell()
            await asyncio.sleep(0.05)
        if left := self.unfinished():
            say(f"{len(left)} tasks have no result after {within_s:g} s")
        return time.monotonic() - began
