"""Users' ways to the system: the client library, over NATS or through a gateway."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from agent_sandbox import Client
from agent_sandbox.events import Missing
from agent_sandbox.over_http.watch import HttpWatch
from agent_sandbox.results import NoResultYet, Result, TaskFailed
from agent_sandbox.running import RunningTask
from chaos.ports.door import Ask, Hears, Told
from shared.errors import OutcomeUnknown, ServiceError
from shared.task import Python, ReadFile

GIVE_UP_S = 180.0
"""A user who has waited so long since the task was accepted goes on without knowing."""
POOL = "chaos"


class SdkDoor:
    """One client library's connection (see `Door`)."""

    def __init__(self, client: Client, via: str, pool: str = POOL) -> None:
        """Use a connected client, and a pool."""
        self.via, self._pool = via, pool
        self._client = client
        self._listening: set[Hears] = set()
        if via == "nats":
            client.bus.on_lost = self._on_lost
            client.bus.on_restored = self._on_restored

    def draw(self) -> str:
        """Return an id for a new session, as the client draws it."""
        return self._client.transport.draw_id()

    async def ask(self, ask: Ask, hears: Hears) -> Told:
        """Publish code and read what its task says, to the end."""
        task = Python(code=ask.code, keep=ask.keep, deadline_s=ask.deadline_s)
        options = {"pool": self._pool, "klass": ask.klass, "task_id": ask.task}
        try:
            if ask.session == ask.task:
                running = await self._client.publish(task, options)
            else:
                running = await self._client.publish_next(ask.session, task, options)
        except ServiceError as exc:
            return _failed(exc)
        hears.accepted()
        self._listening.add(hears)
        try:
            async with asyncio.timeout(GIVE_UP_S):
                return _told(await _listen(running, hears))
        except (TimeoutError, ServiceError) as exc:
            return _not_told(exc)
        finally:
            self._listening.discard(hears)
            await running.forget()

    def _on_lost(self) -> None:
        for hears in list(self._listening):
            hears.cut()

    def _on_restored(self) -> None:
        for hears in list(self._listening):
            hears.attached()

    async def read(self, session: str, task: str, path: str) -> Told:
        """Read a file in the session's turn."""
        ask = ReadFile(path=path)
        try:
            running = await self._client.publish_next(session, ask, {"task_id": task})
        except ServiceError as exc:
            return _failed(exc)
        running.ignore_events()
        try:
            result = await running.result(wait_s=GIVE_UP_S)
        except (TimeoutError, ServiceError) as exc:
            return _not_told(exc)
        told = _told(result)
        return Told(
            is_definite=told.is_definite,
            status=told.status,
            stdout=result.data.decode(errors="replace"),
            epoch=told.epoch,
            attempt=told.attempt,
            error=told.error,
            did_nothing=told.did_nothing,
        )


async def _listen(running: RunningTask, hears: Hears) -> Result:
    """Read a task's events as a user's program would, and return its result."""
    told = 0
    with suppress(NoResultYet):
        async for event in running.events():
            if isinstance(event, Missing):
                hears.gap()
            if isinstance(running.watch, HttpWatch) and running.watch.breaks > told:
                told = running.watch.breaks
                hears.cut()
                hears.attached()
    return await running.result()


def _failed(exc: ServiceError) -> Told:
    return Told(
        is_definite=exc.definite and not isinstance(exc, OutcomeUnknown),
        error=f"{exc.code}: {exc}",
        did_nothing=exc.definite,
    )


def _not_told(exc: TimeoutError | ServiceError) -> Told:
    """Return what is known of a task that was accepted, when nobody could say what became of it: nothing.

    However definite the error is: it tells of the question, not of the task.
    """
    if isinstance(exc, ServiceError):
        return Told(is_definite=False, error=f"{exc.code}: {exc}")
    return Told(is_definite=False, error=f"no result within {GIVE_UP_S:g} s")


def _told(result: Result) -> Told:
    raw = result.raw
    return Told(
        is_definite=True,
        status=raw.status,
        stdout=result.stdout,
        epoch=raw.epoch,
        attempt=raw.attempt,
        error=""
        if result.ok
        else f"{raw.reason}: {raw.error.message if raw.error else raw.stderr.text[-200:]}",
        did_nothing=TaskFailed(result).did_nothing,
    )
