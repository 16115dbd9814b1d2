"""A user's way to the system: what a client library gives, and nothing that a user could not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from shared.messages import Status


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One task to publish."""

    session: str
    task: str
    """Equal to `session`: it makes the session."""
    code: str
    """Python code for the session's interpreter."""
    klass: str = "interactive"
    keep: bool = True
    deadline_s: float = 600.0


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a client was told in the end."""

    is_definite: bool
    """False: the task may have been done, now or later."""
    status: Status | None = None
    stdout: str = ""
    epoch: int = 0
    attempt: int = 0
    error: str = ""
    did_nothing: bool = False
    """It surely did nothing."""


class Hears(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told meanwhile; plain functions, short."""

    accepted: Callable[[], None]
    """Its publish was acknowledged."""
    cut: Callable[[], None]
    """Its stream broke off."""
    attached: Callable[[], None]
    """Its stream goes on."""
    gap: Callable[[], None]
    """Output is missing from its stream."""


class Door(Protocol):
    """One client of the system."""

    via: str
    """`nats` or `http`."""

    def draw(self) -> str:
        """Return an id for a new session."""
        ...

    async def ask(self, ask: Ask, hears: Hears) -> Told:
        """Publish a task and wait for what becomes of it; never raises for what the system does."""
        ...

    async def read(self, session: str, task: str, path: str) -> Told:
        """Read a file of a session's workspace, in the session's turn; `stdout` is its content."""
        ...
