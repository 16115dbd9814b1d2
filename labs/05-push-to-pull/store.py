"""What both sides keep on the queue's server: tasks, the sessions' journals, results; and what a task does.

A session's workspace is a journal here, one list of tokens. A task reads it, thinks, and appends its own token: user code
as it is everywhere, which reads a file, works, and writes the file. Nobody can check a lock inside of it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from chaos.core.journal import whole
from chaos.core.rows import Seen
from labs.frame import CannotRun
from shared.bus import Bus, BusOptions

SECOND_NS = 1_000_000_000
TASKS, TRUTH = "TASKS", "TRUTH"
THINK_S = 0.5
READY_S, POLL_S = 60.0, 0.05
ACK_WAIT_S = 1.5
"""The answer: a task whose worker has said nothing for so long is handed to another one."""
STREAMS: dict[str, dict[str, Any]] = {
    TASKS: {"subjects": ["todo.>"], "allow_direct": True},
    TRUTH: {
        "subjects": ["ws.>", "done.>", "effect.>", "rec.>", "ready.>"],
        "allow_direct": True,
        "allow_atomic": True,
        "republish": {"src": "done.>", "dest": "heard.>"},
    },
}
CONSUMER = {
    "stream_name": TASKS,
    "config": {
        "durable_name": "workers",
        "ack_policy": "explicit",
        "ack_wait": int(ACK_WAIT_S * SECOND_NS),
        "max_deliver": -1,
    },
}


class Task(msgspec.Struct, frozen=True):
    """One turn of a session."""

    session: str
    task: str
    token: str

    @property
    def todo(self) -> str:
        """Where it is published."""
        return f"todo.{self.session}.{self.task}"

    @property
    def done(self) -> str:
        """Where its result is."""
        return f"done.{self.session}.{self.task}"


class Done(msgspec.Struct, frozen=True):
    """Its result: the journal as it was behind it."""

    task: str
    worker: str
    seen: Seen
    epoch: int = 0


class Effect(msgspec.Struct, frozen=True):
    """User code of a task began to run: something in the world outside has happened."""

    session: str
    task: str
    worker: str
    epoch: int = 0


class Record(msgspec.Struct, frozen=True):
    """The answer: whose a session is."""

    owner: str
    epoch: int
    state: str
    tasks_done: int = 0


encode = msgspec.json.encode


async def connect(url: str, name: str) -> Bus:
    """Connect to a server."""
    return await Bus.connect(BusOptions(servers=(url,), name=name), deadline_s=10.0)


async def make_streams(bus: Bus) -> None:
    """Make what both sides need."""
    for name, config in STREAMS.items():
        await bus.js_api(f"STREAM.CREATE.{name}", {"name": name, "storage": "memory", **config})
    await bus.js_api(f"CONSUMER.DURABLE.CREATE.{TASKS}.workers", CONSUMER)


async def tell_ready(bus: Bus, name: str) -> None:
    """Say that a process can work."""
    await bus.publish_acked(f"ready.{name}", b"", message_id=f"ready-{name}")


async def wait_ready(bus: Bus, names: Iterable[str]) -> None:
    """Wait until processes have said so.

    Raises:
        CannotRun: one of them has not, in a long time.
    """
    until = time.monotonic() + READY_S
    for name in names:
        while await bus.read_last(TRUTH, f"ready.{name}") is None:
            if time.monotonic() > until:
                raise CannotRun(f"{name} does not start")
            await asyncio.sleep(POLL_S)


async def tell_effect(bus: Bus, task: Task, worker: str, epoch: int = 0) -> None:
    """Have an effect on the world outside: it cannot be taken back."""
    effect = Effect(task.session, task.task, worker, epoch)
    mark = secrets.token_hex(8)
    await bus.publish_acked(f"effect.{task.session}", encode(effect), message_id=mark)


async def user_code(journal: str, task: Task) -> str:
    """Think, and append; return the new journal."""
    await asyncio.sleep(THINK_S)
    return f"{journal}{task.token}.0\n"


def seen(journal: str) -> Seen:
    """Return what a task tells of the journal that it leaves."""
    return whole(journal)
