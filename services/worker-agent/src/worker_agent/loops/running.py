"""What runs now."""

from __future__ import annotations

import asyncio

import msgspec

from shared.messages import Status


class Running(msgspec.Struct, kw_only=True):
    """The task that runs now, for whoever wants to cancel it."""

    session: str
    task: str
    committed: asyncio.Event
    status: Status | None = None
    """Status of the committed result."""
